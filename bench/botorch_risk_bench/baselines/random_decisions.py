r"""Random decisions, recommended by any risk with constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from botorch_risk.acquisition.widths import Beta
from botorch_risk.arguments import check_arguments
from botorch_risk.constraints.risk_constraint import RiskConstraint
from botorch_risk.environments import Environment
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.environment import EnvironmentRisk, Reporting
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.risk_search import DecisionThenValue, RiskRecipe, random_decision
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy


def random_decisions(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_measure: RiskMeasure,
    constraints: Sequence[RiskConstraint] = (),
    beta: Beta = 4.0,
    constraint_beta: float = 9.0,
    num_initial: int = 10,
    batch_size: int = 1,
    reporting: Reporting | None = None,
    **options: Any,
) -> Strategy:
    r"""Uniformly random decisions; w is observed. It recommends as `risk_search` does.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        environment: The known distribution of W, or of the perturbation of the decision.
        risk_measure: Of the first outcome; larger is better.
        constraints: What has to hold.
        beta: Squared width of the objective's bounds: a number, or a function of the round from 1.
        constraint_beta: Squared width of the constraints' bounds.
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.
        reporting: The rule of the recommendation, as in `EnvironmentRisk`.
        options: Further arguments of `EnvironmentRisk`.

    Raises:
        TypeError: If an argument has the wrong type.
        UnsupportedError: If W depends on the decision in another way than by a perturbation.
        ValueError: If a number is out of its range, or the reporting rule unknown.

    Example:
        >>> import torch
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import WorstCase
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> parts = {"environment": DiscreteEnvironment(unit), "risk_measure": WorstCase()}
        >>> random_decisions(unit, seeds=[0, 1], num_initial=4, **parts).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(random_decisions, locals())
    recipe = RiskRecipe(risk_measure, tuple(constraints), beta, constraint_beta)
    method = EnvironmentRisk(
        recipe,
        DecisionThenValue(random_decision),
        reporting or recipe.reporting,
        num_outcomes=recipe.num_outcomes,
        **options,
    )
    space = EnvironmentSpace(decision_box(bounds), environment, w_is_chosen=False)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
