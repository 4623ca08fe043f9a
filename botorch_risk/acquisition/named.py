r"""The papers' acquisition functions by name.

Each recipe chooses an environment and a risk measure, and returns a `RiskUpperConfidenceBound` of
decisions, complete for one round: a loop of your own and `botorch_risk.strategies` call the same
ones. If the distribution of W is learnt, they take the model, the contexts so far with their
bounds, and the round `t`, in this order; if it is known, the model, the environment and `t`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import (
    Beta,
    bayesian_beta,
    beta_of_round,
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)
from botorch_risk.arguments import as_floating, check_nonnegative
from botorch_risk.environments import (
    DiscreteEnvironment,
    EmpiricalGrid,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
    StandardDeviationBox,
    regular_grid,
)
from botorch_risk.risk import (
    Expectation,
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.risk.mmd import Kernel

PAPER_BETA = 2.25  # sqrt(beta) = 1.5, Sec. B.1 of SBO-KDE
DISCREPANCY_LENGTHSCALE = 0.2  # of the default discrepancy kernel, in ranges of the contexts


def risk_kde(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int],
    risk_measure: RiskMeasure,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""Any risk under a kernel density of the contexts.

    SBO-KDE takes the expectation, Algorithm 1 of [Huang2024kde]_.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`.
        t: The round, >= 1.
        seeds: One for each replicate, for the points that stand for the density.
        risk_measure: Larger is better.
        n_w: How many points; 256 quasi-random ones match 1,024 random ones.
        density_options: Further arguments of `KernelDensityEnvironment`, such as `n_ball`, points
            of the whole box that a ball may use.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If a shape does not fit the model or the bounds.
        InputDataError: If a context is not finite, or outside the bounds where it is not clipped.
        UnsupportedError: If the model is one of risks already.
        ValueError: If a number, an option or the seeds are out of range, or `bounds` no box.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> risk = {"risk_measure": ConditionalValueAtRisk(0.1)}
        >>> risk_kde(model, X[:, 1:], unit, 1, seeds=0, **risk)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    density = KernelDensityEnvironment(
        observed, bounds, n_w=n_w, seeds=seeds, **(density_options or {})
    )
    width = beta_of_round(beta, t)
    return RiskUpperConfidenceBound(model, density, risk_measure, width, **options)


def sbo_kde(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int],
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""SBO-KDE: the expectation over a kernel density of the contexts, [Huang2024kde]_, Alg. 1.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`.
        t: The round, >= 1.
        seeds: One for each replicate, for the points that stand for the density.
        n_w: How many of them; 256 quasi-random ones match the paper's 1,024 random ones.
        density_options: Further arguments of `KernelDensityEnvironment`.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError, InputDataError, UnsupportedError, ValueError: As for
            `risk_kde`.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> sbo_kde(model, X[:, 1:], unit, t=1, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    return risk_kde(
        model,
        observed,
        bounds,
        t,
        seeds=seeds,
        risk_measure=Expectation(),
        n_w=n_w,
        density_options=density_options,
        beta=beta,
        **options,
    )


def drbo_kde(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int],
    n_w: int = 256,
    radius_scale: float = 1.0,
    density_options: dict[str, Any] | None = None,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""DRBO-KDE: the worst distribution in a total-variation ball round the density, Eq. (5).

    Algorithm 2 of [Huang2024kde]_; the radius is `radius_scale * total_variation_radius(t, d_w)`,
    at most 2, and the infimum is over the points of the density and as many Sobol points of the
    box.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`.
        t: The round, >= 1.
        seeds: One for each replicate, for the points of the density and of the box.
        n_w: Points of the density, and of the box.
        radius_scale: Factor of the radius, >= 0; 1 in the paper.
        density_options: Further arguments of `KernelDensityEnvironment`, such as `n_ball`.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError, InputDataError, UnsupportedError, ValueError: As for
            `risk_kde`; also if the radius is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> drbo_kde(model, X[:, 1:], unit, t=1, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    check_nonnegative(radius_scale=radius_scale)
    observed = as_floating(observed, "observed")
    radius = radius_scale * total_variation_radius(t, observed.shape[-1])
    return risk_kde(
        model,
        observed,
        bounds,
        t,
        seeds=seeds,
        risk_measure=TotalVariationBall(min(2.0, radius)),  # 2 is the whole simplex, in l1 units
        n_w=n_w,
        density_options={"n_ball": n_w, **(density_options or {})},
        beta=beta,
        **options,
    )


def drbo_mmd(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int] | None = None,
    num_points: int = 100,
    kernel: Kernel | None = None,
    radius_scale: float = 1.0,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""DRBO-MMD: the worst distribution in a discrepancy ball round the empirical one, on a grid.

    [Kirschner2020drbo]_ as used by [Huang2024kde]_, Sec. B.1. The radius is
    `radius_scale * maximum_mean_discrepancy_radius(t)`.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`.
        t: The round, >= 1.
        seeds: Unused, since a grid draws nothing; an argument of all these recipes.
        num_points: Points of the grid, rounded up to a power of `d_w`.
        kernel: Of the discrepancy, which the paper does not state. Default: a squared exponential
            of amplitude 1 whose lengthscale is 0.2 of the range of each context, with which the
            ball holds nearly every distribution for many rounds.
        radius_scale: Factor of the radius, >= 0.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If a shape does not fit the model or the bounds.
        InputDataError: If a context is not finite, or the kernel's matrix is not symmetric and
            positive semi-definite.
        UnsupportedError: If the model is one of risks already.
        ValueError: If a number is out of its range, or `bounds` no box.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> drbo_mmd(model, X[:, 1:], unit, t=1, num_points=9)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    grid = EmpiricalGrid(observed, regular_grid(bounds, num_points))
    radius = radius_scale * maximum_mean_discrepancy_radius(t)
    ball = MaximumMeanDiscrepancyBall(radius, kernel or _default_kernel(bounds))
    return RiskUpperConfidenceBound(model, grid, ball, beta_of_round(beta, t), **options)


def drbo_mmd_minimax(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int] | None = None,
    num_points: int = 100,
    kernel: Kernel | None = None,
    radius_scale: float = 1.0,
    previous: RiskUpperConfidenceBound | None = None,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""DRBO-MMD with the minimax approximation of the worst case, after [Tay2022sensitivity]_.

    As used by [Huang2024kde]_, Sec. B.1, with 1,024 points. `evaluate` is the approximation at the
    upper bounds, as the exact ball is evaluated there; `upper` bounds the approximation at f.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`.
        t: The round, >= 1.
        seeds: Unused, as in `drbo_mmd`.
        num_points: Points of the grid, rounded up to a power of `d_w`.
        kernel: Of the discrepancy, with the default of `drbo_mmd`.
        radius_scale: Factor of the radius, >= 0.
        previous: What this recipe returned in an earlier round, whose factors of the kernel matrix
            serve again where the grid is the same; its kernel is kept.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError, InputDataError, UnsupportedError, ValueError: As for
            `drbo_mmd`.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> first = drbo_mmd_minimax(model, X[:9, 1:], unit, t=1, num_points=9)
        >>> second = drbo_mmd_minimax(model, X[:, 1:], unit, t=2, num_points=9, previous=first)
        >>> second(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    grid = EmpiricalGrid(observed, regular_grid(bounds, num_points))
    radius = radius_scale * maximum_mean_discrepancy_radius(t)
    if previous is None:
        worst: Any = MinimaxApproximation(radius, kernel or _default_kernel(bounds))
    else:
        measure: Any = previous.risk_measure
        worst = replace(measure, radius=radius)  # the matrix does not depend on the radius
    options = {"optimism": "of_values", **options}
    return RiskUpperConfidenceBound(model, grid, worst, beta_of_round(beta, t), **options)


def stable_opt(
    model: Model,
    observed: Tensor,
    bounds: Tensor | None,
    t: int,
    *,
    seeds: int | Sequence[int],
    n_w: int = 256,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""StableOpt: the worst context within a standard deviation of the mean of those so far.

    [Bogunovic2018stableopt]_ as used by [Huang2024kde]_, Sec. B.1. Where the set of contexts is
    known, use `adversarial_stable_opt`.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`, at which the box is cut; None for no cut.
        t: The round, >= 1.
        seeds: One for each replicate, for the points of the box.
        n_w: Points of the box.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If a shape does not fit the model or the bounds.
        InputDataError: If a context is not finite.
        UnsupportedError: If the model is one of risks already.
        ValueError: If a number is out of its range, or `bounds` no box.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> stable_opt(model, X[:, 1:], unit, t=1, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    box = StandardDeviationBox(observed, n_w, seeds, bounds=bounds)
    return RiskUpperConfidenceBound(model, box, WorstCase(), beta_of_round(beta, t), **options)


def _default_kernel(bounds: Tensor) -> Kernel:
    bounds = as_floating(bounds, "bounds")
    return partial(_squared_exponential, ranges=bounds[1] - bounds[0])


def _squared_exponential(first: Tensor, second: Tensor, ranges: Tensor) -> Tensor:
    r"""Kernel matrix of `n x d_w` and `m x d_w` contexts, `n x m`."""
    scaled = (first.unsqueeze(-2) - second.unsqueeze(-3)) / ranges.to(first)
    squares = scaled.square().sum(dim=-1)
    return (squares / DISCREPANCY_LENGTHSCALE**2).mul(-0.5).exp()


# Recipes for a known distribution of W.


def v_ucb(
    model: Model,
    environment: Environment,
    t: int,
    *,
    risk_level: float,
    beta: Beta = bayesian_beta,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""V-UCB's choice of x: value-at-risk of the upper bound, [Nguyen2021vucb]_, Algorithm 1.

    `select_lacing_value` then finds the w to query.

    Args:
        model: A fitted model of (x, w) with one output; of x where it is perturbed.
        environment: The known distribution of W, or of the perturbation of x.
        t: The round, >= 1.
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If pending decisions and the environment do not make the inputs
            of the model.
        UnsupportedError: If the model is one of risks already.
        ValueError: If the level is outside (0, 1), or `beta` negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> v_ucb(model, weather, t=1, risk_level=0.1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    measure = ValueAtRisk(risk_level)
    return RiskUpperConfidenceBound(model, environment, measure, beta_of_round(beta, t), **options)


def adversarial_stable_opt(
    model: Model, environment: Environment, t: int, *, beta: Beta = bayesian_beta, **options: Any
) -> RiskUpperConfidenceBound:
    r"""StableOpt as it was published: the worst w in a known set, Eq. (5) of [Nguyen2021vucb]_.

    The adversary's w, at the least lower bound, is `select_lacing_value(..., rule="uniform")`.

    Args:
        model: A fitted model of (x, w) with one output; of x where it is perturbed.
        environment: Its points of positive weight are the adversary's choices.
        t: The round, >= 1.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If pending decisions and the environment do not make the inputs
            of the model.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> adversarial_stable_opt(model, weather, t=1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    width = beta_of_round(beta, t)
    return RiskUpperConfidenceBound(model, environment, WorstCase(), width, **options)


def contextual_gp_ucb(
    model: Model, W: Tensor, t: int, *, beta: Beta = bayesian_beta, **options: Any
) -> RiskUpperConfidenceBound:
    r"""Contextual GP-UCB: the upper bound at the present context [Krause2011contextual]_.

    Args:
        model: A fitted model of (x, w) with one output.
        W: The context of each replicate, `batch_shape x 1 x d_w`.
        t: The round, >= 1.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If the shape of the context, or of pending decisions, does not
            fit.
        InputDataError: If a context is not finite.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> contextual_gp_ucb(model, X[:1, 1:], t=1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    present, width = DiscreteEnvironment(W), beta_of_round(beta, t)
    return RiskUpperConfidenceBound(model, present, Expectation(), width, **options)


def gp_ucb(model: Any, t: int, *, beta: Beta, **options: Any) -> RiskUpperConfidenceBound:
    r"""GP-UCB, `mean + sqrt(beta) sigma`: the bound of the risk where nothing is at risk.

    Algorithm 1 of [Srinivas2010gpucb]_.

    Args:
        model: A fitted exact GP of x with one output, for one experiment or for replicates.
        t: The round, >= 1.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If pending points do not have the columns of the model.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> gp_ucb(model, t=1, beta=4.0)(torch.rand(3, 1, 2).double()).shape
        torch.Size([3])
    """
    X = model.train_inputs[0]
    unperturbed = InputPerturbation(X.new_zeros(1, X.shape[-1]))
    return RiskUpperConfidenceBound(
        model, unperturbed, Expectation(), beta_of_round(beta, t), **options
    )
