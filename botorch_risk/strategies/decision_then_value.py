r"""A decision first, then the value of W to query with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from botorch_risk.acquisition.lacing import LacingRule, select_lacing_value
from botorch_risk.acquisition.select_value import RiskWithLimit, select_value
from botorch_risk.arguments import check_fields, check_kind
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_at
from botorch_risk.models.outcomes import single_outcome, spread_of
from botorch_risk.strategies.environment_risk import Chooser, Turn

ChooseValue = Callable[[Turn, Tensor], Tensor]
ValueRule = Literal["risk_variance", "lacing", "outcome_variance"]


@dataclass(frozen=True)
class DecisionThenValue:
    r"""Chooses a decision and, if w is chosen too, the value of W to query with it.

    Args:
        decide: Chooses the decision, `R x 1 x d_x`.
        value: Appends a value of the support to decisions: model inputs `R x 1 x d`.
    """

    decide: Chooser
    value: ChooseValue

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, turn: Turn) -> Tensor:
        X = self.decide(turn)
        return turn.space.row(X, self.value(turn, X)) if turn.space.w_is_chosen else X


def largest_bound(turn: Turn) -> Tensor:
    r"""The decision with the largest confidence bound, `R x 1 x d_x`."""
    return turn.maximize(turn.bound)


def random_decision(turn: Turn) -> Tensor:
    r"""A uniformly random decision, `R x 1 x d_x`."""
    X: Tensor = turn.space.box.random_points(turn.streams("decision"), 1)
    return X


def largest_reduction(turn: Turn, X: Tensor) -> Tensor:
    r"""The value whose reading most reduces the variance of the risks: `select_value`."""
    bound: Any = turn.bound
    under_risk = [each for each in bound.risk_constraints if isinstance(each, RiskWithLimit)]
    return select_value(turn.model, turn.environment, bound.risk_measure, X, constraints=under_risk)


def least_certain(turn: Turn, X: Tensor) -> Tensor:
    r"""The value of W whose outcomes are least certain: `select_least_certain_value`."""
    return select_least_certain_value(turn.model, turn.environment, X)


def select_least_certain_value(model: Any, environment: Environment, X: Tensor) -> Tensor:
    r"""The value of W with the largest sum of `sigma(x, w) / spread` over the outcomes.

    The spread is the standard deviation of the observations.

    Args:
        X: Decisions, `R x 1 x d_x`, or `1 x d_x` for a model without replicates.
    """
    inputs, weights = environment.expand(X)  # R x 1 x n_w x d
    pairs = inputs.squeeze(-3)
    total = torch.zeros_like(pairs[..., 0])  # R x n_w
    with torch.no_grad():
        for outcome in range(model.num_outputs):
            deviation = Belief(single_outcome(model, outcome))(pairs).variance.sqrt()
            total += deviation / spread_of(model, outcome).to(deviation).unsqueeze(-1)
    supported = (weights > 0).expand(inputs.shape[:-1]).squeeze(-2)
    best = total.masked_fill(~supported, -torch.inf).argmax(dim=-1, keepdim=True)
    return inputs_at(inputs, best)


@dataclass(frozen=True)
class LacingValue:
    r"""A lacing value, or a value whose bounds are as wide as those of the risk.

    Algorithm 1, line 4, and Definition 1 of [Nguyen2021vucb]_.

    Args:
        rule: The rule of `select_lacing_value`: `"probability"` is V-UCB Prob and `"uniform"` V-UCB
            Unif.
    """

    rule: LacingRule = "probability"

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, turn: Turn, X: Tensor) -> Tensor:
        bound = turn.bound.of_objective
        return select_lacing_value(bound, X, self.rule, seeds=turn.streams("lacing"))


VALUE_RULES: dict[ValueRule, ChooseValue] = {
    "risk_variance": largest_reduction,
    "lacing": LacingValue("variance"),
    "outcome_variance": least_certain,
}


def value_of_rule(value_rule: ValueRule) -> ChooseValue:
    r"""The choice of W by its name."""
    check_kind(ValueRule, value_rule=value_rule)
    return VALUE_RULES[value_rule]
