r"""The papers' acquisition functions by name: choices of an environment and a risk measure.

Each returns a `RiskUpperConfidenceBound`, to be maximised over decisions. They serve a loop of
your own; `botorch_risk.strategies` has whole loops.

.. [Nguyen2021vucb]
    Q. P. Nguyen, Z. Dai, B. K. H. Low, P. Jaillet. Value-at-Risk Optimization with Gaussian
    Processes. International Conference on Machine Learning, 2021.

.. [Huang2024kde]
    X. Huang, L. Song, K. Xue, C. Qian. Stochastic Bayesian Optimization with Unknown Continuous
    Context Distribution via Kernel Density Estimation. AAAI Conference on Artificial
    Intelligence, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.schedules import (
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)
from botorch_risk.environments import (
    EmpiricalGrid,
    Environment,
    KernelDensityEnvironment,
    StandardDeviationBox,
    regular_grid,
)
from botorch_risk.risk import (
    Expectation,
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.risk.kernel_matrices import Kernel

PAPER_BETA = 2.25  # sqrt(beta) = 1.5, Sec. B.1 of SBO-KDE


def v_ucb(
    model: Model,
    environment: Environment,
    risk_level: float,
    beta: float | Tensor,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""V-UCB's choice of x: value-at-risk of the upper bound, [Nguyen2021vucb]_, Algorithm 1.

    Args:
        model: A fitted model of (x, w) with one output.
        environment: The known law of W.
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.
        beta: Squared width of the bound, such as `bayesian_beta(t)`.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Returns:
        The acquisition function. `select_lacing_value` finds the w to query.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> law = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> v_ucb(model, law, risk_level=0.1, beta=4.0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    return RiskUpperConfidenceBound(model, environment, ValueAtRisk(risk_level), beta, **options)


def sbo_kde(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    *,
    seeds: int | Sequence[int],
    n_w: int = 256,
    beta: float | Tensor = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""SBO-KDE: the expectation over a kernel density of the contexts, [Huang2024kde]_, Eq. (3).

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: Those of the contexts, `2 x d_w`.
        seeds: One for each replicate, for the points that stand for the density.
        n_w: How many of them; 256 quasi-random ones match the paper's 1,024 random ones.
        beta: Squared width of the bound.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Returns:
        The acquisition function.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> sbo_kde(model, X[:, 1:], unit, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    density = KernelDensityEnvironment(observed, bounds, n_w=n_w, seeds=seeds)
    return RiskUpperConfidenceBound(model, density, Expectation(), beta, **options)


def drbo_kde(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int],
    n_w: int = 256,
    radius_scale: float = 1.0,
    beta: float | Tensor = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""DRBO-KDE: the worst law in a total-variation ball round the density, Eq. (5).

    After [Huang2024kde]_; the radius is `radius_scale * total_variation_radius(t, d_w)`, at most
    2, and the infimum is over the points of the density and as many Sobol points of the box.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: Those of the contexts, `2 x d_w`.
        t: The round, >= 1.
        seeds: One for each replicate.
        n_w: Points of the density, and of the box.
        radius_scale: Factor of the radius.
        beta: Squared width of the bound.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Returns:
        The acquisition function.
    """
    density = KernelDensityEnvironment(observed, bounds, n_w=n_w, seeds=seeds, n_ball=n_w)
    radius = radius_scale * total_variation_radius(t, observed.shape[-1])
    ball = TotalVariationBall(min(2.0, radius))
    return RiskUpperConfidenceBound(model, density, ball, beta, **options)


def drbo_mmd(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    kernel: Kernel,
    *,
    num_points: int = 100,
    radius_scale: float = 1.0,
    minimax: bool = False,
    beta: float | Tensor = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""DRBO-MMD: the worst law in a discrepancy ball round the empirical one, on a grid.

    Kirschner et al. 2020 as used by [Huang2024kde]_, Sec. B.1, maximise the worst expectation of
    the upper bounds; Tay et al. 2022 the minimax approximation of it. The radius is
    `radius_scale * maximum_mean_discrepancy_radius(t)`.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: Those of the contexts, `2 x d_w`.
        t: The round, >= 1.
        kernel: Of the discrepancy, which neither paper states; with a diagonal of 1 the ball
            holds every law for many rounds.
        num_points: Points of the grid, rounded up to a power of `d_w`.
        radius_scale: Factor of the radius.
        minimax: Whether to approximate the worst case: then `evaluate` is the approximation at
            the upper bounds, and `upper` a bound of the approximation at f.
        beta: Squared width of the bound.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Returns:
        The acquisition function.
    """
    grid = EmpiricalGrid(observed, regular_grid(bounds, num_points))
    radius = radius_scale * maximum_mean_discrepancy_radius(t)
    if minimax:
        approximation, of_values = MinimaxApproximation(radius, kernel), {"optimism": "of_values"}
        return RiskUpperConfidenceBound(model, grid, approximation, beta, **(of_values | options))
    ball = MaximumMeanDiscrepancyBall(radius, kernel)
    return RiskUpperConfidenceBound(model, grid, ball, beta, **options)


def stable_opt(
    model: Model,
    observed: Tensor,
    bounds: Tensor | None = None,
    *,
    seeds: int | Sequence[int],
    n_w: int = 256,
    beta: float | Tensor = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""StableOpt: the worst context within a standard deviation of the mean of those so far.

    Bogunovic et al. 2018 as used by [Huang2024kde]_, Sec. B.1. For a set of contexts of your own,
    pass a `DiscreteEnvironment` and `WorstCase()` to `RiskUpperConfidenceBound`.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: Those of the contexts, `2 x d_w`, at which the box is cut.
        seeds: One for each replicate.
        n_w: Points of the box.
        beta: Squared width of the bound.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Returns:
        The acquisition function.
    """
    box = StandardDeviationBox(observed, n_w, seeds, bounds=bounds)
    return RiskUpperConfidenceBound(model, box, WorstCase(), beta, **options)
