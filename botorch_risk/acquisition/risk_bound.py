r"""The bound of any risk in one round, from a schedule of risks and of widths.

A user's loop and the papers' strategies use the same parts. If the distribution of W is learnt, the
round `t` counts evaluations: `n + 1` after n observed contexts, initial ones included.
"""

from collections.abc import Callable
from typing import Any

from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch.nn import Module

from botorch_risk.acquisition.joint_risk_ucb import JointRiskUpperConfidenceBound
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import Beta, beta_of_round
from botorch_risk.arguments import check_flags
from botorch_risk.environments import Environment, InputPerturbation
from botorch_risk.models.botorch_parts import as_environment, check_risk_measure
from botorch_risk.points import input_widths, original_inputs
from botorch_risk.risk import Expectation, RiskMeasure

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
    r"""Confidence bound of any risk. A paper's schedules make it that paper's acquisition function.

    Args:
        model: A fitted model of (x, w) with one output; of x if the environment perturbs it.
        environment: The distribution of W in this round, known or learnt.
        t: The round, >= 1.
        risk_measure: A measure, larger is better; or a schedule, called as `risk_measure(t, d_w)`.
        beta: Squared width of the bound: a number, a `batch_shape` tensor, or a schedule of either.
        previous: The bound of an earlier round, whose factorisations the measure may reuse.
        joint: Whether to build a `JointRiskUpperConfidenceBound`.
        options: Further arguments of the bound.

    Raises:
        UnsupportedError: If the model is one of risks already.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import environment, model
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> risk = {"risk_measure": ConditionalValueAtRisk(0.1), "beta": 4.0}
        >>> risk_bound(model, environment, t=1, **risk)(torch.rand(3, 1, 1).double()).shape
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


def gp_ucb(model: Any, t: int, *, beta: Beta, **options: Any) -> RiskUpperConfidenceBound:
    r"""GP-UCB, `mean + sqrt(beta) sigma`: the bound without any risk.

    Algorithm 1 of [Srinivas2010gpucb]_. For the other arguments and errors see `risk_bound`.

    Args:
        model: A fitted exact GP of x with one output, for one experiment or for replicates.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import model
        >>> gp_ucb(model, t=1, beta=4.0)(torch.rand(3, 1, 2).double()).shape
        torch.Size([3])
    """
    X = original_inputs(model)
    unperturbed = InputPerturbation(X.new_zeros(1, X.shape[-1]))
    return risk_bound(model, unperturbed, t, risk_measure=Expectation(), beta=beta, **options)


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
            "Expected a model with a known number of inputs, because a schedule needs the number "
            f"of columns of W. Got {type(model).__name__}; pass the risk measure of the round."
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
        f"model. Got {type(environment).__name__}, which makes a different number."
    )


def is_schedule(risk_measure: Any) -> bool:
    r"""Whether it is a function of the round rather than a risk measure."""
    return callable(risk_measure) and not isinstance(risk_measure, RiskMeasure | Module | type)


def check_risk(risk_measure: Any) -> None:
    r"""Raise TypeError unless it is a measure, or a schedule that has one for the first round."""
    check_risk_measure(risk_measure(1, 1) if is_schedule(risk_measure) else risk_measure)
