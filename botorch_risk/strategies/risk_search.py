r"""Maximise any risk of an outcome, subject to constraints that hold under a risk."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.acquisition.lacing import check_has_lacing_value
from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint, check_constraints, under
from botorch_risk.acquisition.risk_bound import RiskSchedule, check_risk, is_schedule, risk_bound
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.arguments import check_arguments, check_fields, check_nonnegative
from botorch_risk.environments import Environment, ObservedContexts
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    ValueRule,
    largest_bound,
    value_of_rule,
)
from botorch_risk.strategies.environment_risk import Bound, Chooser, EnvironmentRisk, Reporting
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy

# Options of `EnvironmentRisk` by which the papers' strategies recommend as their papers do.
AS_IN_PAPERS: dict[str, Any] = {"overrules_fit": False}


@dataclass(frozen=True)
class RiskRecipe:
    r"""The confidence bound of a risk of the first outcome, with constraints on any of them.

    The arguments are as in `risk_search`.

    Example:
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> RiskRecipe(ConditionalValueAtRisk(0.1)).num_outcomes
        1
    """

    risk_measure: RiskMeasure | RiskSchedule
    constraints: tuple[OutcomeConstraint, ...] = ()
    beta: Beta = 4.0
    constraint_beta: float = 9.0
    constraint_upper_beta: float | None = 0.0
    joint: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_risk(self.risk_measure)
        check_beta(self.beta)
        check_constraints(self.constraints)
        check_nonnegative(constraint_beta=self.constraint_beta)
        if self.constraint_upper_beta is not None:
            check_nonnegative(constraint_upper_beta=self.constraint_upper_beta)

    @property
    def num_outcomes(self) -> int:
        r"""The number of outcomes in the objective and the constraints."""
        return 1 + max((each.outcome for each in self.constraints), default=0)

    def reporting(self, space: EnvironmentSpace) -> Reporting:
        r"""The rule to report by.

        Any decision, by its expected risk unless the measure solves an optimisation problem; under
        a learnt distribution, an evaluated decision.
        """
        if self.constraints:
            return "posterior_mean_everywhere"
        if is_sampled(self.risk_measure, space):
            return "expected_risk_everywhere"
        return "posterior_mean_everywhere" if space.w_is_chosen else "posterior_mean"

    def __call__(
        self, model: Model, environment: Environment, t: int, previous: Any = None, **options: Any
    ) -> Bound:
        r"""The bound of round t."""
        objective = risk_bound(
            model.models[0] if isinstance(model, ModelList) else model,  # type: ignore[arg-type]
            environment,
            t,
            risk_measure=self.risk_measure,
            beta=self.beta,
            previous=previous,
            joint=self.joint,
            **options,
        )
        if not self.constraints:
            return objective
        constraints = under(environment, self.constraints)
        betas = self.constraint_beta, self.constraint_upper_beta
        return constraints[0].constrained(model, objective, constraints, *betas, **options)


def is_sampled(risk_measure: RiskMeasure | RiskSchedule, space: EnvironmentSpace) -> bool:
    r"""Whether joint samples over W are the default way to compute the risk."""
    return (
        isinstance(risk_measure, RiskMeasure)
        and not risk_measure.is_a_program
        and not space.is_learnt
    )


def risk_search(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment | ObservedContexts,
    risk_measure: RiskMeasure | RiskSchedule,
    constraints: Sequence[OutcomeConstraint] = (),
    beta: Beta = 4.0,
    constraint_beta: float = 9.0,
    constraint_upper_beta: float | None = 0.0,
    decide: Chooser | None = None,
    choose: Chooser | None = None,
    w_is_chosen: bool = False,
    value_rule: ValueRule = "risk_variance",
    joint: bool | None = None,
    num_initial: int = 10,
    batch_size: int = 1,
    reporting: Reporting | None = None,
    **options: Any,
) -> Strategy:
    r"""Maximise any risk of the first outcome, subject to constraints that hold under a risk.

        maximise   risk_measure(f_0(x, W))
        subject to risk_i(f_i(x, W)) >= threshold_i

    The distribution of W is known, or learnt from the contexts observed with the outcomes
    (`ObservedContexts`). The search uses the confidence bounds of this package, which treat all
    replicates at once, or, with `MonteCarloDecision`, an acquisition function of BoTorch on the
    samples of the risks, replicate by replicate. Both recommend the decision with the best expected
    risk, evaluated or not, unless by samples of the hyperparameters an evaluated one is better
    (`overrules_fit`). With constraints, both recommend the best risk of the posterior mean among
    all decisions that are confidently feasible, evaluated or not: a search along the edge of the
    feasible set evaluates few feasible decisions. A warning is given if no decision is feasible.

    If w is chosen, the shares of the values of W in the initial design follow their importance for
    the risk (`RiskMeasure.importance`).

    Outcomes beyond the first belong to constraints; `tell` then takes `R x q x m`, or
    `R x q x k x m` with repeats.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        environment: The distribution of W, or of the perturbation of the decision.
        risk_measure: The measure of the first outcome; larger is better. Or a schedule of measures,
            `risk_measure(t, d_w)`, with the t of `beta`.
        constraints: Constraints on outcomes, which are numbered from 0. A constraint under
            `ObservedContexts` holds under the distribution that the objective has learnt.
        beta: Squared width of the objective's bounds: a number, or a function of t: the round, from
            1; with `ObservedContexts`, the number of the next evaluation, initial ones included.
        constraint_beta: Squared width of the constraints' bounds: it sets the confidence with which
            a recommendation is feasible. It is larger than `beta`, because optimisation tends to
            find decisions where a bound is wrong, and the bounds use fitted hyperparameters. The
            method's `predict_feasible` gives the probability by samples of the hyperparameters.
        constraint_upper_beta: Squared width of the constraints' upper bounds, which restrict the
            search; None for `constraint_beta`, as in theory. See `ConstrainedUpperConfidenceBound`.
        decide: The rule that chooses the decision, such as a `MonteCarloDecision` with a
            Monte-Carlo acquisition function of BoTorch. Default: the largest confidence bound.
        choose: The rule that chooses rows, instead of `decide`. Default: `DecisionThenValue`.
        w_is_chosen: Whether w is chosen; otherwise the environment draws it, and it is observed
            with the outcome.
        value_rule: The rule that chooses w for a decision, see `VALUE_RULES`. Default: the one
            whose reading most reduces the variance of the risk (`select_value`).
        joint: Whether the objective's bound is a `JointRiskUpperConfidenceBound`, under the joint
            posterior over W. Default: True if w is chosen by the default rules and the measure
            solves no optimisation problem (a ball in maximum mean discrepancy solves one). On one
            thread, a decision in two dimensions takes 0.1 s at 256 values and 0.4 s at 1,024; with
            another kernel than the squared exponential, or w that depends on the decision, the cost
            grows with the square to the cube of the number of values, to 3 s and a minute.
        num_initial: The number of points in the initial design.
        batch_size: The number `q` of points in each later round.
        reporting: The rule of the recommendation, as in `EnvironmentRisk`. Default: any decision,
            by its expected risk, which costs as much as `joint` unless it has a closed form
            (`"posterior_mean_everywhere"` is cheap for any number of values). With a measure that
            solves an optimisation problem, constraints or a learnt distribution, the default is the
            risk of the posterior mean: of any decision if w is chosen or there are constraints,
            else of an evaluated one.
        options: Further arguments of `EnvironmentRisk`.

    Raises:
        UnsupportedError: If w is chosen although its distribution is learnt, or although it
            perturbs the decision and there are constraints, or if its rule does not support the
            measure.

    Example:
        >>> import torch
        >>> from botorch_risk.constraints import RiskConstraint
        >>> from botorch_risk.examples import environment, unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> parts = {"environment": environment, "risk_measure": ConditionalValueAtRisk(0.2)}
        >>> load = RiskConstraint.chance(environment, 1.8, outcome=1, delta=0.1)
        >>> strategy = risk_search(unit, [0, 2], constraints=[load], num_initial=6, **parts)
        >>> X = strategy.ask()  # decisions; w comes with the outcomes
        >>> w = environment.points[torch.arange(6) % 5].expand(2, 6, 1)
        >>> Y = torch.stack([(4 * X).sin() + w, X + w], dim=-1)  # R x q x k x m
        >>> strategy.tell(torch.cat([X, w], dim=-1), Y)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(risk_search, locals())
    check_beta(beta)
    if decide is not None and choose is not None:
        raise ValueError(f"Expected either `decide` or `choose`. Got {decide!r}, {choose!r}.")
    if not isinstance(environment, ObservedContexts) and not is_schedule(risk_measure):
        environment, risk_measure = parts_of(environment, risk_measure)
    by_default = decide is None and choose is None
    space = EnvironmentSpace(
        decision_box(bounds),
        environment,
        w_is_chosen,
        risk_measure
        if w_is_chosen and by_default and isinstance(risk_measure, RiskMeasure)
        else None,
    )
    if joint is None:
        joint = w_is_chosen and by_default and is_sampled(risk_measure, space)
    recipe = RiskRecipe(
        risk_measure, tuple(constraints), beta, constraint_beta, constraint_upper_beta, joint
    )
    if w_is_chosen and space.perturbs and recipe.num_outcomes > 1:
        raise UnsupportedError(
            "Expected `w_is_chosen=False` if the environment perturbs the decision, with "
            f"constraints. Got {type(environment).__name__}."
        )
    if choose is None:
        choose = DecisionThenValue(decide or largest_bound, value_of_rule(value_rule))
        if w_is_chosen and value_rule == "lacing" and isinstance(risk_measure, RiskMeasure):
            check_has_lacing_value(risk_measure)
    method = EnvironmentRisk(
        recipe,
        choose,
        reporting or recipe.reporting(space),
        num_outcomes=recipe.num_outcomes,
        **{"overrules_fit": True, **options},
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
