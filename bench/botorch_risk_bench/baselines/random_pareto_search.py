r"""Random decisions, reported by the risks of several objectives."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from botorch_risk.arguments import check_arguments
from botorch_risk.constraints.risk_constraint import RiskConstraint
from botorch_risk.environments import Environment
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.pareto_set import of_measures
from botorch_risk.strategies.risk_search import random_decision
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy


def random_pareto_search(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_measures: Sequence[RiskMeasure],
    constraints: Sequence[RiskConstraint] = (),
    constraint_beta: float = 9.0,
    num_initial: int = 10,
    batch_size: int = 1,
) -> Strategy:
    r"""Uniformly random decisions, which recommends as `pareto_search` does.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        environment: The known distribution of W; w is observed with the outcomes.
        risk_measures: One for each objective.
        constraints: What has to hold.
        constraint_beta: Squared width of the bounds of the constraints.
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.

    Raises:
        TypeError: If an argument has the wrong type.
        UnsupportedError: If W depends on the decision in another way than by a perturbation.
        ValueError: If the numbers of measures and objectives do not match, or a number is out of
            its range.

    Example:
        >>> import torch
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import Expectation, WorstCase
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> parts = {"environment": DiscreteEnvironment(unit), "num_initial": 4}
        >>> strategy = random_pareto_search(
        ...     unit, 0, risk_measures=[Expectation(), WorstCase()], **parts
        ... )
        >>> strategy.ask().shape
        torch.Size([1, 4, 1])
    """
    check_arguments(random_pareto_search, locals())
    space = EnvironmentSpace(decision_box(bounds), environment, w_is_chosen=False)
    method = of_measures(
        risk_measures, random_decision, constraints=constraints, constraint_beta=constraint_beta
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
