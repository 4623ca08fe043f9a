r"""Bounds of a risk in one round: schedules of widths and risks, and the environments of KDE.

`risk_bound` combines a risk (or its schedule), an environment (known or learnt) and a width to the
`RiskUpperConfidenceBound` of round `t`; a user's loop and `botorch_risk.strategies` use the same
parts. Where the distribution of W is learnt, `t` is the number of this evaluation, `n + 1` after n
contexts, initial ones included.
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
    LabelFrequencies,
    ObservedContexts,
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
    r"""Options of a density with as many further points in the whole box, for a ball's mass."""
    return {"n_ball": n_w, **(density_options or {})}


def empirical_grid(
    context_bounds: Tensor, num_points: int = 100, categories: Sequence[int] = ()
) -> ObservedContexts:
    r"""Contexts assigned to the nearest point of a grid, for DRBO-MMD; or labels, counted."""
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

    With it the ball holds nearly every distribution for many rounds. The paper states no kernel.
    """
    lower, upper = as_floating(context_bounds, "bounds")
    return partial(_squared_exponential, ranges=upper - lower)


def _squared_exponential(first: Tensor, second: Tensor, ranges: Tensor) -> Tensor:
    r"""Kernel matrix of `n x d_w` and `m x d_w` contexts, `n x m`."""
    scaled = (first.unsqueeze(-2) - second.unsqueeze(-3)) / ranges.to(first)
    squares = scaled.square().sum(dim=-1)
    return (squares / DISCREPANCY_LENGTHSCALE**2).mul(-0.5).exp()


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
