r"""SBO-KDE and DRBO-KDE: a kernel density of the contexts is learnt [Huang2024kde]_.

Symbols of the paper, and names here:

    x, c            the decision, and the context w: the last columns
    C_t             the contexts observed so far, `ObservedContexts.learnt`
    p_hat_t         `KernelDensityEnvironment`, of n_w points
    B(p_hat_t, d_t) `TotalVariationBall` of radius `total_variation_radius(t, d_w)`
    beta_t          beta: its square root multiplies the standard deviation; 2.25 in Sec. B.1

Equations and results, by what computes them:

    risk.Expectation
        Eq. (1)         the expectation, of which regret is the loss
    environments.KernelDensity
        Eq. (2)         kernel density of the contexts
    risk.total_variation_worst_case
        Eq. (5)         worst expectation in a total-variation ball
        Eq. (14)        the ball's program in q
        Eq. (17)        its dual program
        Proposition 2   worst expectation in a ball by its dual
        Proposition 4   Proposition 2 again
    papers.drbo_kde
        Eq. (6)         DRBO-KDE's acquisition function over samples
        Algorithm 2     DRBO-KDE
    papers.learnt_context_beta
        Lemma 6         expected excess of f over its bound
        Theorem 1       the width beta_t of SBO-KDE (the regret is a rate)
        Theorem 2       the width beta_t of DRBO-KDE (the regret is a rate)
        Theorem 3       Theorem 1 again
        Theorem 4       Theorem 2 again
    papers.sbo_kde
        Algorithm 1     SBO-KDE

`ask` returns decisions; `tell` takes them with their observed contexts in the last columns. In your
own loop, with a `model` of (x, w) and the contexts observed so far:

    density = kernel_density(context_bounds).learnt(observed, seeds)
    acqf = risk_bound(model, density, t, risk_measure=Expectation(), beta=PAPER_BETA)  # SBO-KDE

    contexts = kernel_density(context_bounds, density_options=with_ball(256, None))
    density = contexts.learnt(observed, seeds)
    acqf = risk_bound(  # DRBO-KDE
        model, density, t, risk_measure=total_variation_schedule, beta=PAPER_BETA
    )
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.risk_bound import RiskSchedule
from botorch_risk.acquisition.widths import Beta
from botorch_risk.arguments import (
    as_floating,
    check_arguments,
    check_counts,
    check_flags,
    check_nonnegative,
    check_positive,
    check_probability,
)
from botorch_risk.environments import (
    EmpiricalGrid,
    KernelDensityEnvironment,
    LabelFrequencies,
    ObservedContexts,
    regular_grid,
)
from botorch_risk.risk import (
    Expectation,
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    RiskMeasure,
    TotalVariationBall,
)
from botorch_risk.risk.mmd import Kernel
from botorch_risk.strategies.risk_search import AS_IN_PAPERS, risk_search
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy

PAPER_BETA = 2.25  # sqrt(beta) = 1.5, Sec. B.1
DISCREPANCY_LENGTHSCALE = 0.2  # of the default discrepancy kernel, in ranges of the contexts


def risk_kde(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    risk_measure: RiskMeasure | RiskSchedule,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    context_categories: Sequence[int] = (),
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""Any risk under a kernel density of the contexts, Algorithm 1 of [Huang2024kde]_.

    SBO-KDE uses the expectation. Other arguments are as in `risk_search`.

    Args:
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        risk_measure: A measure, larger is better; or a schedule, `risk_measure(t, d_w)`, where t is
            the number of the next evaluation, initial ones included.
        n_w: Number of points that represent the density. The paper uses 1,024 Monte-Carlo points;
            256 quasi-random ones are as accurate.
        density_options: Further arguments of `KernelDensityEnvironment`. Contexts outside their
            bounds are refused unless `at_bounds` is `"clip"`.
        context_categories: The columns of contexts that are labels, from 0, coded by the whole
            numbers within their bounds. Their frequencies are learnt by `LabelFrequencies`, and
            each point of the density of the others is repeated for each label.
        options: Further arguments of `risk_search`, such as `constraints` and `num_initial`.

    Example:
        >>> from botorch_risk.examples import unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> tail = ConditionalValueAtRisk(0.1)
        >>> strategy = risk_kde(unit, [0, 1], context_bounds=unit, risk_measure=tail, num_initial=4)
        >>> strategy.ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(risk_kde, locals())
    density = kernel_density(context_bounds, n_w, density_options, context_categories)
    return risk_search(
        bounds, seeds, environment=density, risk_measure=risk_measure, beta=beta, **options
    )


def sbo_kde(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    context_categories: Sequence[int] = (),
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""SBO-KDE: the expectation over a kernel density of the contexts, [Huang2024kde]_, Alg. 1.

    For arguments and errors see `risk_kde`.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import unit
        >>> strategy = sbo_kde(unit, seeds=[0, 1], context_bounds=unit, num_initial=5)
        >>> decisions = strategy.ask()
        >>> observed = torch.cat([decisions, torch.rand(2, 5, 1, dtype=torch.double)], dim=-1)
        >>> strategy.tell(observed, (4 * observed).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(sbo_kde, locals())
    density = kernel_density(context_bounds, n_w, density_options, context_categories)
    options = {**AS_IN_PAPERS, **options}
    return risk_search(
        bounds, seeds, environment=density, risk_measure=Expectation(), beta=beta, **options
    )


def drbo_kde(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    n_w: int = 256,
    radius_scale: float = 1.0,
    density_options: dict[str, Any] | None = None,
    context_categories: Sequence[int] = (),
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""DRBO-KDE: the worst distribution in a ball round the density [Huang2024kde]_, Eq. (5).

    The ball is in total variation. Its radius at evaluation t, initial ones included, is
    `radius_scale * t^(-2 / (4 + d_w))`, in the paper's l1 units; d_w counts columns of labels too,
    although their frequencies are learnt faster. The infimum is over the points of the density and
    the same number of Sobol points in the whole box. For the other arguments and errors see
    `risk_kde`.

    Args:
        n_w: Number of points of the density, and of the box.
        radius_scale: Factor of the radius, >= 0; 1 in the paper.

    Example:
        >>> from botorch_risk.examples import unit
        >>> drbo_kde(unit, seeds=[0, 1], context_bounds=unit, num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(drbo_kde, locals())
    # Eq. (6), Algorithm 2
    density = kernel_density(
        context_bounds, n_w, with_ball(n_w, density_options), context_categories
    )
    ball = partial(total_variation_schedule, radius_scale=radius_scale)
    options = {**AS_IN_PAPERS, **options}
    return risk_search(bounds, seeds, environment=density, risk_measure=ball, beta=beta, **options)


def drbo_mmd(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    num_points: int = 100,
    radius_scale: float = 1.0,
    kernel: Callable[[Tensor, Tensor], Tensor] | None = None,
    minimax: bool = False,
    context_categories: Sequence[int] = (),
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""DRBO-MMD: the worst distribution in an MMD ball round the empirical one.

    [Kirschner2020drbo]_ as used in Sec. 4 of [Huang2024kde]_. Contexts are assigned to the nearest
    of about `num_points` grid points. The radius at evaluation t, initial ones included, is

        radius_scale * (2 + sqrt(2 log(1 / gamma))) / sqrt(t),  gamma = 0.1

    With the default kernel of unit amplitude this is close to the pure worst case for many rounds,
    so kernel and scale are arguments (the paper states neither). For the other arguments see
    `risk_kde`.

    Args:
        num_points: Number of grid points, rounded up to a `d_w`-th power; the paper uses 1,024 with
            the minimax approximation.
        radius_scale: Factor of the radius, >= 0.
        kernel: The kernel of the discrepancy. Default: a squared exponential of lengthscale 0.2 of
            the range of each context.
        minimax: Whether to maximise the minimax approximation of the worst case.
        context_categories: As in `risk_kde`: all columns of contexts or none. Labels need a
            `kernel`, and their frequencies are counted without a grid.

    Raises:
        UnsupportedError: If there are labels without a `kernel`, or numbers next to labels.

    Example:
        >>> from botorch_risk.examples import unit
        >>> drbo_mmd(unit, seeds=[0, 1], context_bounds=unit, num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(drbo_mmd, locals())
    if context_categories and kernel is None:
        raise UnsupportedError(
            "Expected a `kernel` of your own for labels, whose codes have no distance, such as "
            f"BoTorch's `CategoricalKernel`. Got {kernel=}, {context_categories=}."
        )
    grid = empirical_grid(context_bounds, num_points, context_categories)
    ball = partial(
        discrepancy_schedule,
        kernel=discrepancy_kernel(grid.context_bounds) if kernel is None else kernel,
        radius_scale=radius_scale,
        minimax=minimax,
    )
    # The kernel matrix of the grid stays; its factors take longer than all else of a round.
    options = {"uses_previous": minimax, **options}
    options = {**AS_IN_PAPERS, **options}
    return risk_search(bounds, seeds, environment=grid, risk_measure=ball, beta=beta, **options)


def total_variation_radius(t: int, d_w: int) -> float:
    r"""The radius of DRBO-KDE's ball at evaluation t.

        t ** (-2 / (4 + d_w))

    Sec. 4.1 of [Huang2024kde]_: the rate at which the kernel density approaches the distribution,
    which keeps the regret of Theorem 2 sub-linear. It is in l1 units, the convention of
    `TotalVariationBall`. As in Algorithm 2, t counts the initial evaluations.

    Args:
        t: The number of the evaluation, >= 1: `n + 1` after n contexts.
        d_w: The number of environmental variables, >= 1.

    Example:
        >>> round(total_variation_radius(32, d_w=1), 4)
        0.25
    """
    check_counts(t=t, d_w=d_w)
    return t ** (-2 / (4 + d_w))


def maximum_mean_discrepancy_radius(t: int, gamma: float = 0.1) -> float:
    r"""The radius of DRBO-MMD's ball at evaluation t.

        (2 + sqrt(2 log(1 / gamma))) / sqrt(t)

    Lemma 3 of [Kirschner2020drbo]_: with probability `1 - gamma` the distribution is at most this
    far from the empirical distribution of t draws, for a kernel whose diagonal is at most 1.

    Args:
        t: The number of the evaluation, >= 1: `n + 1` after n contexts, as in Algorithm 2 of
            [Huang2024kde]_.
        gamma: Probability, in (0, 1), that the distribution lies outside.

    Example:
        >>> round(maximum_mean_discrepancy_radius(16), 4)
        1.0365
    """
    check_counts(t=t)
    check_probability(gamma=gamma)
    return (2 + math.sqrt(2 * math.log(1 / gamma))) / math.sqrt(t)


def learnt_context_beta(
    t: int, d_x: int, side_length: float, slope_factor: float, slope_scale: float
) -> float:
    r"""The squared width of SBO-KDE and DRBO-KDE on a box of decisions.

        beta_t = 2 log(t^2 / sqrt(2 pi)) + 2 d_x log(t^2 d_x a b r sqrt(pi) / 2)

    Theorems 1 and 2 of [Huang2024kde]_ on `[0, r]^d_x`, for a function whose slopes obey
    `P(sup |df / dz_i| > L) <= a exp(-(L / b)^2)` (Assumption 1). The second logarithm is of the
    number of grid points along one axis. Here it is at least 1, and a sum below 0 is raised to 0;
    the paper mentions neither. Its experiments use 2.25.

    Args:
        t: The round, >= 1.
        d_x: The number of decision variables, >= 1.
        side_length: r, > 0.
        slope_factor: a, > 0.
        slope_scale: b, > 0, in units of the outcome per unit of r.

    Example:
        >>> round(learnt_context_beta(10, 2, side_length=1, slope_factor=1, slope_scale=1), 3)
        28.083
        >>> from functools import partial  # a schedule, for a strategy's `beta`
        >>> schedule = partial(learnt_context_beta, d_x=2, side_length=1, slope_factor=1,
        ...                    slope_scale=1)
        >>> round(schedule(20), 3)
        36.4
    """
    check_counts(t=t, d_x=d_x)
    check_positive(side_length=side_length, slope_factor=slope_factor, slope_scale=slope_scale)
    log_grid = (
        2 * math.log(t)
        + math.log(d_x * math.sqrt(math.pi) / 2)
        + math.log(slope_factor)
        + math.log(slope_scale)
        + math.log(side_length)
    )
    # Lemma 6, and in Theorems 1 and 2, which the appendix repeats as Theorems 3 and 4.
    beta = 2 * (2 * math.log(t) - math.log(2 * math.pi) / 2) + 2 * d_x * max(log_grid, 0.0)
    return max(beta, 0.0)


def kernel_density(
    context_bounds: Tensor,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    categories: Sequence[int] = (),
) -> ObservedContexts:
    r"""Contexts whose distribution is learnt as a kernel density, for SBO-KDE and DRBO-KDE.

    The frequencies of labels, in columns of `categories`, are learnt by `LabelFrequencies`.
    """
    check_counts(n_w=n_w)
    options = density_options or {}
    learn: Any = partial(KernelDensityEnvironment, n_w=n_w, **options)
    if categories:
        learn = LabelFrequencies(categories, density=learn)
    return ObservedContexts(context_bounds, learn, may_leave=options.get("at_bounds") == "clip")


def with_ball(n_w: int, density_options: dict[str, Any] | None) -> dict[str, Any]:
    r"""Options of a density that add `n_w` points in the whole box, where a ball may put mass."""
    return {"n_ball": n_w, **(density_options or {})}


def empirical_grid(
    context_bounds: Tensor, num_points: int = 100, categories: Sequence[int] = ()
) -> ObservedContexts:
    r"""Contexts that are counted at the nearest grid point, or by label, for DRBO-MMD."""
    check_counts(num_points=num_points)
    if not categories:
        return ObservedContexts(context_bounds, partial(_nearest_on_grid, num_points=num_points))
    labels = ObservedContexts(context_bounds, LabelFrequencies(categories))
    d_w = labels.context_bounds.shape[-1]
    if len(categories) < d_w:
        raise UnsupportedError(
            "Expected labels in all columns of contexts or in none, as a grid has no density. "
            f"Got labels in {list(categories)} of {d_w} columns; use a kernel density."
        )
    return labels


def _nearest_on_grid(
    observed: Tensor, *, bounds: Tensor, seeds: Any = None, num_points: int
) -> EmpiricalGrid:
    return EmpiricalGrid(observed, regular_grid(bounds, num_points))


def total_variation_schedule(t: int, d_w: int, *, radius_scale: float = 1.0) -> RiskMeasure:
    r"""The ball of DRBO-KDE at evaluation t, Eq. (5) of [Huang2024kde]_."""
    check_nonnegative(radius_scale=radius_scale)
    radius = radius_scale * total_variation_radius(t, d_w)
    return TotalVariationBall(min(2.0, radius))  # 2 is the whole simplex, in l1 units


def discrepancy_schedule(
    t: int, d_w: int, *, kernel: Kernel, radius_scale: float = 1.0, minimax: bool = False
) -> RiskMeasure:
    r"""The ball of DRBO-MMD at evaluation t, Sec. B.1 of [Huang2024kde]_, or its approximation."""
    check_flags(minimax=minimax)
    check_nonnegative(radius_scale=radius_scale)
    radius = radius_scale * maximum_mean_discrepancy_radius(t)
    ball = MinimaxApproximation if minimax else MaximumMeanDiscrepancyBall
    return ball(radius, kernel)


def discrepancy_kernel(context_bounds: Tensor) -> Kernel:
    r"""A squared exponential of amplitude 1; its lengthscale is 0.2 of the range of each context.

    With it, the ball contains nearly every distribution for many rounds. The paper states none.
    """
    lower, upper = as_floating(context_bounds, "bounds")
    return partial(_squared_exponential, ranges=upper - lower)


def _squared_exponential(first: Tensor, second: Tensor, ranges: Tensor) -> Tensor:
    r"""Kernel matrix of `n x d_w` and `m x d_w` contexts, `n x m`."""
    scaled = (first.unsqueeze(-2) - second.unsqueeze(-3)) / ranges.to(first)
    squares = scaled.square().sum(dim=-1)
    return (squares / DISCREPANCY_LENGTHSCALE**2).mul(-0.5).exp()
