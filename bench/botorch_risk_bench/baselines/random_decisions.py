r"""Random decisions, recommended by a risk or by the risks of several objectives."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from botorch_risk.acquisition.widths import Beta
from botorch_risk.arguments import check_arguments
from botorch_risk.constraints.risk_constraint import RiskConstraint
from botorch_risk.environments import Environment
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.pareto_search import of_measures
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    largest_reduction,
    random_decision,
)
from botorch_risk.strategies.environment_risk import EnvironmentRisk, Reporting
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.risk_search import RiskRecipe
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


@documented(
    "risk_measure=WorstCase(), num_initial=4",
    1,
    "from botorch_risk.risk import WorstCase",
    options="Further arguments of `EnvironmentRisk`.",
)
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
    r"""Uniformly random decisions; w is observed. It recommends as `risk_search` does."""
    check_arguments(random_decisions, locals())
    recipe = RiskRecipe(risk_measure, tuple(constraints), beta, constraint_beta)
    space = EnvironmentSpace(decision_box(bounds), environment, w_is_chosen=False)
    method = EnvironmentRisk(
        recipe,
        DecisionThenValue(random_decision, largest_reduction),
        reporting or recipe.reporting(space),
        num_outcomes=recipe.num_outcomes,
        **{"overrules_fit": True, **options},
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


@documented(
    "risk_measures=[Expectation(), WorstCase()], num_initial=4",
    1,
    "from botorch_risk.risk import Expectation, WorstCase",
)
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
    r"""Uniformly random decisions; it recommends as `pareto_search` does."""
    check_arguments(random_pareto_search, locals())
    space = EnvironmentSpace(decision_box(bounds), environment, w_is_chosen=False)
    method = of_measures(
        risk_measures, random_decision, constraints=constraints, constraint_beta=constraint_beta
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
