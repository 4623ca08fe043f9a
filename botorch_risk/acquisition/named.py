r"""The papers' acquisition functions by name.

A recipe combines a risk (or its schedule), an environment (known or learnt) and a width. It returns
the `RiskUpperConfidenceBound` of decisions for one round: your own loop and
`botorch_risk.strategies` use the same parts. If the distribution of W is learnt, a recipe takes the
model, the contexts so far with their bounds, and `t`, in this order: the number of this evaluation,
`n + 1` after n contexts, initial ones included. If the distribution is known, it takes the model,
the environment and the round `t`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module

from botorch_risk.acquisition.joint_risk_ucb import JointRiskUpperConfidenceBound
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import (
    Beta,
    bayesian_beta,
    beta_of_round,
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)
from botorch_risk.arguments import as_floating, check_counts, check_flags, check_nonnegative
from botorch_risk.environments import (
    DiscreteEnvironment,
    EmpiricalGrid,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
    ObservedContexts,
    StandardDeviationBox,
    regular_grid,
)
from botorch_risk.models.botorch_parts import as_environment, check_risk_measure
from botorch_risk.points import input_widths, original_inputs
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

RiskSchedule = Callable[[int, int], RiskMeasure]
r"""From `t` and the number of contexts `d_w` to the risk of the round."""


def risk_bound(
    model: Model,
    environment: Environment,
    t: int,
    *,
    risk_measure: RiskMeasure | RiskSchedule,
    beta: Beta,
    previous: RiskUpperConfidenceBound | None = None,
    joint: bool = False,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""The bound of any risk in one round; every other recipe is a special case.

    Args:
        model: A fitted model of (x, w) with one output; of x if the environment perturbs it.
        environment: The distribution of W in this round, known or learnt.
        t: The round, >= 1.
        risk_measure: Larger is better; or a schedule, `risk_measure(t, d_w)`.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        previous: The bound of an earlier round; the measure may reuse its factorisations.
        joint: Whether it is a `JointRiskUpperConfidenceBound`.
        options: Further arguments of the bound.

    Raises:
        BotorchTensorDimensionError: If decisions and environment do not combine to inputs of the
            model.
        TypeError: If `risk_measure` is neither a measure nor a schedule.
        UnsupportedError: If the model is one of risks already.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> risk = {"risk_measure": ConditionalValueAtRisk(0.1), "beta": 4.0}
        >>> risk_bound(model, weather, t=1, **risk)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    check_flags(joint=joint)
    measure = risk_of_round(risk_measure, t, environment, model)
    check_risk_measure(measure)
    if previous is not None:
        measure = measure.following(previous.risk_measure)
    squared_width = beta_of_round(beta, t)
    if joint:
        return JointRiskUpperConfidenceBound(model, environment, measure, squared_width, **options)
    options.setdefault("optimism", measure.optimism)
    return RiskUpperConfidenceBound(model, environment, measure, squared_width, **options)


def risk_of_round(risk_measure: Any, t: int, environment: Any, model: Model) -> RiskMeasure:
    r"""The measure of round t, from a measure or a schedule."""
    if is_schedule(risk_measure):
        risk_measure = risk_measure(t, _num_contexts(as_environment(environment), model))
    measure: RiskMeasure = risk_measure
    return measure


def _num_contexts(environment: Any, model: Model) -> int:
    r"""The number of columns of W; of a perturbation, of the decision."""
    if environment.independent:
        return int(environment.points.shape[-1])
    if isinstance(environment, InputPerturbation):
        return environment.perturbations.shape[-1]
    widths = input_widths(model)
    if widths is None:
        raise UnsupportedError(
            "Expected a model that knows its number of inputs, of which a schedule is told those "
            f"of W. Got {type(model).__name__}; pass the risk measure of the round."
        )
    for d_x in range(max(widths), 0, -1):  # only the environment knows how many it takes
        try:
            made = environment.num_inputs(d_x)
        except (BotorchTensorDimensionError, RuntimeError):
            continue
        if made in widths:
            return made - d_x or d_x
    raise BotorchTensorDimensionError(
        f"Expected an environment that makes the {' or '.join(map(str, widths))} inputs of the "
        f"model. Got {type(environment).__name__}, which makes them of no decision."
    )


def is_schedule(risk_measure: Any) -> bool:
    r"""Whether it is a function of the round rather than a measure of ours or BoTorch's."""
    return callable(risk_measure) and not isinstance(risk_measure, RiskMeasure | Module | type)


def check_risk(risk_measure: Any) -> None:
    r"""Raises TypeError unless it is a measure, or a schedule that gives one in the first round."""
    check_risk_measure(risk_measure(1, 1) if is_schedule(risk_measure) else risk_measure)


# The environments and the schedules of the papers.


def kernel_density(
    context_bounds: Tensor, n_w: int = 256, density_options: dict[str, Any] | None = None
) -> ObservedContexts:
    r"""Contexts whose distribution is learnt as a kernel density, for SBO-KDE and DRBO-KDE."""
    check_counts(n_w=n_w)
    options = density_options or {}
    learn = partial(KernelDensityEnvironment, n_w=n_w, **options)
    return ObservedContexts(context_bounds, learn, may_leave=options.get("at_bounds") == "clip")


def with_ball(n_w: int, density_options: dict[str, Any] | None) -> dict[str, Any]:
    r"""Options of a density with as many further points in the whole box, for a ball's mass."""
    return {"n_ball": n_w, **(density_options or {})}


def empirical_grid(context_bounds: Tensor, num_points: int = 100) -> ObservedContexts:
    r"""Contexts assigned to the nearest point of a grid, for DRBO-MMD."""
    check_counts(num_points=num_points)
    return ObservedContexts(context_bounds, partial(_nearest_on_grid, num_points=num_points))


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

    With it the ball holds nearly every distribution for many rounds. The paper states no kernel.
    """
    lower, upper = as_floating(context_bounds, "bounds")
    return partial(_squared_exponential, ranges=upper - lower)


def _squared_exponential(first: Tensor, second: Tensor, ranges: Tensor) -> Tensor:
    r"""Kernel matrix of `n x d_w` and `m x d_w` contexts, `n x m`."""
    scaled = (first.unsqueeze(-2) - second.unsqueeze(-3)) / ranges.to(first)
    squares = scaled.square().sum(dim=-1)
    return (squares / DISCREPANCY_LENGTHSCALE**2).mul(-0.5).exp()


# Recipes for a distribution of W that is learnt.


def risk_kde(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    seeds: int | Sequence[int],
    risk_measure: RiskMeasure | RiskSchedule,
    n_w: int = 256,
    density_options: dict[str, Any] | None = None,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""Any risk under a kernel density of the contexts.

    SBO-KDE uses the expectation, Algorithm 1 of [Huang2024kde]_.

    Args:
        model: A fitted model of (x, w) with one output.
        observed: Contexts so far, `batch_shape x t x d_w`, in the model's units.
        bounds: The bounds of the contexts, `2 x d_w`.
        t: The number of this evaluation: `n + 1` after n contexts, initial ones included.
        seeds: One for each replicate, for the points that represent the density.
        risk_measure: Larger is better; or a schedule, `risk_measure(t, d_w)`.
        n_w: The number of points; 256 quasi-random ones match the paper's 1,024 random ones.
        density_options: Further arguments of `KernelDensityEnvironment`, such as `n_ball`, points
            of the whole box that a ball may use.
        beta: Squared width of the bound, a number or `batch_shape`, or its schedule.
        options: Further arguments of `RiskUpperConfidenceBound`.

    Raises:
        BotorchTensorDimensionError: If a shape does not fit the model or the bounds.
        InputDataError: If a context is not finite, or outside the bounds and not clipped.
        TypeError: If `risk_measure` is neither a measure nor a schedule.
        UnsupportedError: If the model is one of risks already.
        ValueError: If a number, an option or the seeds are out of range, or `bounds` is not a box.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> risk = {"risk_measure": ConditionalValueAtRisk(0.1)}
        >>> risk_kde(model, X[:, 1:], unit, 13, seeds=0, **risk)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    density = kernel_density(bounds, n_w, density_options).learnt(observed, seeds)
    return risk_bound(model, density, t, risk_measure=risk_measure, beta=beta, **options)


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

    For arguments and errors see `risk_kde`.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> sbo_kde(model, X[:, 1:], unit, t=13, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    density = kernel_density(bounds, n_w, density_options).learnt(observed, seeds)
    return risk_bound(model, density, t, risk_measure=Expectation(), beta=beta, **options)


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
    at most 2, and the infimum is over the points of the density and the same number of Sobol points
    in the box. For the other arguments and errors see `risk_kde`.

    Args:
        n_w: Points of the density, and of the box.
        radius_scale: Factor of the radius, >= 0; 1 in the paper.

    Raises:
        ValueError: If `radius_scale` is negative or not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> drbo_kde(model, X[:, 1:], unit, t=13, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    density = kernel_density(bounds, n_w, with_ball(n_w, density_options)).learnt(observed, seeds)
    ball = partial(total_variation_schedule, radius_scale=radius_scale)
    return risk_bound(model, density, t, risk_measure=ball, beta=beta, **options)


def drbo_mmd(
    model: Model,
    observed: Tensor,
    bounds: Tensor,
    t: int,
    *,
    num_points: int = 100,
    kernel: Kernel | None = None,
    radius_scale: float = 1.0,
    minimax: bool = False,
    previous: Any = None,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> RiskUpperConfidenceBound:
    r"""DRBO-MMD: the worst distribution in a discrepancy ball round the empirical one, on a grid.

    [Kirschner2020drbo]_ as used by [Huang2024kde]_, Sec. B.1. The radius is
    `radius_scale * maximum_mean_discrepancy_radius(t)`. For the other arguments and errors see
    `risk_kde`; nothing is drawn.

    Args:
        num_points: Points of the grid, rounded up to a power of `d_w`; the paper has 1,024 with
            the minimax approximation.
        kernel: The kernel of the discrepancy. Default: the kernel of `previous`, or
            `discrepancy_kernel(bounds)`.
        radius_scale: Factor of the radius, >= 0.
        minimax: Whether to maximise the minimax approximation of the worst case, after
            [Tay2022sensitivity]_. `evaluate` is then the approximation at the upper bounds, as
            the exact ball is evaluated there; `upper` bounds the approximation at f.
        previous: The bound of an earlier round. With `minimax` and the same kernel and grid, its
            factors of the kernel matrix are reused.

    Raises:
        InputDataError: If a context is not finite, or the kernel's matrix is not symmetric and
            positive semi-definite.
        TypeError: If `previous` has no kernel and none is given.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> drbo_mmd(model, X[:, 1:], unit, t=13, num_points=9)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    grid = empirical_grid(bounds, num_points).learnt(observed, seeds=0)  # a grid draws nothing
    if kernel is None and previous is None:
        kernel = discrepancy_kernel(bounds)
    elif kernel is None:
        measure = getattr(previous, "risk_measure", previous)
        if not isinstance(measure, MaximumMeanDiscrepancyBall | MinimaxApproximation):
            raise TypeError(
                "Expected `previous` to be a bound of `drbo_mmd`, whose risk has a kernel. "
                f"Got {measure!r}."
            )
        kernel = measure.kernel
    ball = partial(discrepancy_schedule, kernel=kernel, radius_scale=radius_scale, minimax=minimax)
    return risk_bound(model, grid, t, risk_measure=ball, beta=beta, previous=previous, **options)


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

    [Bogunovic2018stableopt]_ as used by [Huang2024kde]_, Sec. B.1. If the set of contexts is known,
    use `adversarial_stable_opt`. For the other arguments and errors see `risk_kde`.

    Args:
        bounds: The bounds of the contexts, `2 x d_w`, at which the box is cut; None for no cut.
        seeds: One for each replicate, for the points of the box.
        n_w: Points of the box.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> stable_opt(model, X[:, 1:], unit, t=13, seeds=0)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    box = StandardDeviationBox(observed, n_w, seeds, bounds=bounds)
    return risk_bound(model, box, t, risk_measure=WorstCase(), beta=beta, **options)


# Recipes for a distribution of W that is known.


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

    `select_lacing_value` then finds the w to query. For the other arguments and errors see
    `risk_bound`.

    Args:
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.

    Raises:
        ValueError: If the level is outside (0, 1).

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
    return risk_bound(model, environment, t, risk_measure=measure, beta=beta, **options)


def adversarial_stable_opt(
    model: Model, environment: Environment, t: int, *, beta: Beta = bayesian_beta, **options: Any
) -> RiskUpperConfidenceBound:
    r"""StableOpt as published: the worst w in a known set, Eq. (5) of [Nguyen2021vucb]_.

    The adversary's w, at the least lower bound, is `select_lacing_value(..., rule="uniform")`.
    The adversary chooses among the points of positive weight. For arguments and errors see
    `risk_bound`.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> adversarial_stable_opt(model, weather, t=1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    return risk_bound(model, environment, t, risk_measure=WorstCase(), beta=beta, **options)


def contextual_gp_ucb(
    model: Model, W: Tensor, t: int, *, beta: Beta = bayesian_beta, **options: Any
) -> RiskUpperConfidenceBound:
    r"""Contextual GP-UCB: the upper bound at the present context [Krause2011contextual]_.

    For the other arguments and errors see `risk_bound`.

    Args:
        W: The context of each replicate, `batch_shape x 1 x d_w`.

    Raises:
        BotorchTensorDimensionError: If the shape of the context, or of pending decisions, does not
            fit.
        InputDataError: If a context is not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> contextual_gp_ucb(model, X[:1, 1:], t=1)(torch.rand(3, 1, 1).double()).shape
        torch.Size([3])
    """
    present = DiscreteEnvironment(W)
    return risk_bound(model, present, t, risk_measure=Expectation(), beta=beta, **options)


def gp_ucb(model: Any, t: int, *, beta: Beta, **options: Any) -> RiskUpperConfidenceBound:
    r"""GP-UCB, `mean + sqrt(beta) sigma`: the bound without any risk.

    Algorithm 1 of [Srinivas2010gpucb]_. For the other arguments and errors see `risk_bound`.

    Args:
        model: A fitted exact GP of x with one output, for one experiment or for replicates.

    Raises:
        BotorchTensorDimensionError: If pending points do not have the columns of the model.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> gp_ucb(model, t=1, beta=4.0)(torch.rand(3, 1, 2).double()).shape
        torch.Size([3])
    """
    X = original_inputs(model)
    unperturbed = InputPerturbation(X.new_zeros(1, X.shape[-1]))
    return risk_bound(model, unperturbed, t, risk_measure=Expectation(), beta=beta, **options)
