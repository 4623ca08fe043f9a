r"""Maximises any risk of an outcome, subject to constraints that hold under a risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.acquisition.named import RiskSchedule, check_risk, is_schedule, risk_bound
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.arguments import check_arguments, check_fields, check_nonnegative
from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.risk_constraint import RiskConstraint, check_constraints, under
from botorch_risk.environments import Environment, ObservedContexts
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.outcomes import single_outcome, spread_of
from botorch_risk.posterior.marginals import MarginalPredictor
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.environment import Bound, Chooser, EnvironmentRisk, Reporting, Turn
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.monte_carlo import AcquisitionOfRisk, MonteCarloDecision
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy


@dataclass(frozen=True)
class RiskRecipe:
    r"""The confidence bound of a risk of the first outcome, with constraints on any of them.

    Args:
        risk_measure: Reduces the first outcome; larger is better. Or a schedule of measures,
            `risk_measure(t, d_w)`.
        constraints: What has to hold.
        beta: Squared width of the objective's bounds: a number, or a function of the round from 1.
        constraint_beta: Squared width of the bounds of the constraints, by which a decision is
            feasible with confidence.
        optimism: Squared width of their upper bounds alone; None for `constraint_beta`.

    Raises:
        ValueError: If a squared width is negative or not finite.

    Example:
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> RiskRecipe(ConditionalValueAtRisk(0.1)).num_outcomes
        1
    """

    risk_measure: RiskMeasure | RiskSchedule
    constraints: tuple[RiskConstraint, ...] = ()
    beta: Beta = 4.0
    constraint_beta: float = 9.0
    optimism: float | None = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_risk(self.risk_measure)
        check_beta(self.beta)
        check_constraints(self.constraints)
        check_nonnegative(constraint_beta=self.constraint_beta)
        if self.optimism is not None:
            check_nonnegative(optimism=self.optimism)

    @property
    def num_outcomes(self) -> int:
        r"""The number of outcomes that the constraints ask for, the objective among them."""
        return 1 + max((each.outcome for each in self.constraints), default=0)

    @property
    def reporting(self) -> Reporting:
        r"""The rule to report by: an evaluated decision, or with constraints any."""
        return "posterior_mean_everywhere" if self.constraints else "posterior_mean"

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
            **options,
        )
        if not self.constraints:
            return objective
        return ConstrainedUpperConfidenceBound(
            model,
            objective,
            under(environment, self.constraints),
            beta=self.constraint_beta,
            optimism=self.optimism,
            **options,
        )


@dataclass(frozen=True)
class DecisionThenValue:
    r"""A decision, and if w is chosen the value of W at which its outcomes are least certain.

    The value has the largest sum over the outcomes of `sigma(x, w) / spread`, the spread being the
    standard deviation of what was observed. It lies in the support.

    Args:
        decide: Chooses the decision, `R x 1 x d_x`.
    """

    decide: Chooser

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, turn: Turn) -> Tensor:
        X = self.decide(turn)
        if not turn.space.w_is_chosen:
            return X
        return turn.space.row(X, _least_certain(turn, X))


def largest_bound(turn: Turn) -> Tensor:
    r"""The decision of the largest confidence bound, `R x 1 x d_x`."""
    return turn.maximize(turn.bound)


def random_decision(turn: Turn) -> Tensor:
    r"""A uniformly random decision, `R x 1 x d_x`."""
    X: Tensor = turn.space.box.random_points(turn.streams("decision"), 1)
    return X


def risk_search(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment | ObservedContexts,
    risk_measure: RiskMeasure | RiskSchedule,
    constraints: Sequence[RiskConstraint] = (),
    beta: Beta = 4.0,
    constraint_beta: float = 9.0,
    optimism: float | None = 0.0,
    acquisition: AcquisitionOfRisk | None = None,
    choose: Chooser | None = None,
    w_is_chosen: bool = False,
    num_initial: int = 10,
    batch_size: int = 1,
    reporting: Reporting | None = None,
    **options: Any,
) -> Strategy:
    r"""Maximises any risk of the first outcome, subject to constraints that hold under a risk.

        maximise   risk_measure(f_0(x, W))
        subject to risk_i(f_i(x, W)) >= threshold_i

    The distribution of W is known, or learnt from the contexts observed with the outcomes
    (`ObservedContexts`). The search uses the confidence bounds of this package, which treat all
    replicates at once, or an acquisition function of BoTorch on the samples of the risks
    (`robust`), replicate by replicate. Both recommend the decision with the best risk of the
    posterior mean; with constraints, among all decisions that are feasible with confidence,
    evaluated or not, since a search for the edge of the feasible set evaluates few that are. A
    warning says if there is none.

    Outcomes beyond the first are those that constraints ask for; then `tell` takes `R x q x k x m`.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        environment: The distribution of W, or of the perturbation of the decision.
        risk_measure: Of the first outcome; larger is better. Or a schedule of measures,
            `risk_measure(t, d_w)`.
        constraints: What has to hold, for outcomes of number 0, 1, and so on. A constraint under
            `ObservedContexts` holds under the distribution that the objective has learnt.
        beta: Squared width of the objective's bounds: a number, or a function of the round from 1.
        constraint_beta: Squared width of the constraints' bounds, the confidence with which a
            recommendation is feasible. Larger than `beta`, because the best decision tends to be
            found where a bound is wrong.
        optimism: Squared width of the constraints' upper bounds, which say where the search may
            go; None for `constraint_beta`, as theory would have it. See
            `ConstrainedUpperConfidenceBound`.
        acquisition: The class of a Monte-Carlo acquisition function of BoTorch, or a function with
            its arguments: `acquisition(model, X_baseline, X_pending=, objective=, constraints=)`,
            the last two where `robust` has them. Default: the largest confidence bound.
        choose: How rows are chosen, in place of `acquisition`. Default: `DecisionThenValue`.
        w_is_chosen: Whether w is chosen; otherwise the environment draws it, and it is observed
            with the outcome.
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.
        reporting: The rule of the recommendation, as in `EnvironmentRisk`.
        options: Further arguments of `EnvironmentRisk`.

    Raises:
        TypeError: If a part is no environment or no risk measure.
        UnsupportedError: If w is to be chosen where its distribution is learnt, or where it
            perturbs the decision, with constraints.
        ValueError: If a number is out of its range, or both `acquisition` and `choose` are given.

    Example:
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> parts = {"environment": weather, "risk_measure": ConditionalValueAtRisk(0.2)}
        >>> load = RiskConstraint.chance(weather, 1.8, outcome=1, delta=0.1)
        >>> strategy = risk_search(bounds, [0, 1], constraints=[load], num_initial=6, **parts)
        >>> X = strategy.ask()  # decisions; the weather comes with the outcomes
        >>> w = weather.points[torch.arange(6) % 5].expand(2, 6, 1)
        >>> Y = torch.stack([(4 * X).sin() + w, X + w], dim=-1)  # R x q x k x m
        >>> strategy.tell(torch.cat([X, w], dim=-1), Y)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
        >>> by_botorch = risk_search(
        ...     bounds, 0, acquisition=qLogNoisyExpectedImprovement, num_initial=6, **parts
        ... )
    """
    check_arguments(risk_search, locals())
    check_beta(beta)
    if acquisition is not None and choose is not None:
        raise ValueError(f"Expected `acquisition` or `choose`. Got {acquisition!r}, {choose!r}.")
    if not isinstance(environment, ObservedContexts) and not is_schedule(risk_measure):
        environment, risk_measure = parts_of(environment, risk_measure)
    recipe = RiskRecipe(risk_measure, tuple(constraints), beta, constraint_beta, optimism)
    space = EnvironmentSpace(decision_box(bounds), environment, w_is_chosen)
    if w_is_chosen and space.perturbs and recipe.num_outcomes > 1:
        raise UnsupportedError(
            "Expected `w_is_chosen=False` where the environment perturbs the decision, with "
            f"constraints. Got {type(environment).__name__}."
        )
    if acquisition is not None:
        choose = DecisionThenValue(
            MonteCarloDecision(acquisition, risk_measure, recipe.constraints)
        )
    method = EnvironmentRisk(
        recipe,
        choose or DecisionThenValue(largest_bound),
        reporting or recipe.reporting,
        num_outcomes=recipe.num_outcomes,
        **options,
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


def _least_certain(turn: Turn, X: Tensor) -> Tensor:
    r"""The inputs of the model at decisions `R x 1 x d_x`, with the value of W to query."""
    inputs, weights = turn.environment.expand(X)  # R x 1 x n_w x d
    model, pairs = turn.model, inputs.squeeze(-3)
    total = torch.zeros_like(pairs[..., 0])  # R x n_w
    with torch.no_grad():
        for outcome in range(model.num_outputs):
            deviation = MarginalPredictor(single_outcome(model, outcome))(pairs).variance.sqrt()
            total += deviation / spread_of(model, outcome).to(deviation).unsqueeze(-1)
    supported = (weights > 0).expand(inputs.shape[:-1]).squeeze(-2)
    best = total.masked_fill(~supported, -torch.inf).argmax(dim=-1)
    index = best[:, None, None, None].expand(-1, 1, 1, inputs.shape[-1])
    return inputs.gather(-2, index).squeeze(-2)
