r"""Every problem of the bench, one line each; `test_contract.py` tests what they share."""

import os
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch_risk_bench.problems import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    EnvironmentalSchaffer,
    ForestTuning,
    MixedNewsvendor,
    Newsvendor,
    PortfolioOptimization,
    PortfolioPolicy,
    RobotPushing,
    TabularProblem,
    ValueAtRiskPortfolio,
    ValueAtRiskRobotPushing,
)

from tests.test_functions.cases import problem_case, repeats_of, value_at_risk


def environmental(name: str, build: Any, decision: int, **options: Any) -> Any:
    return problem_case(
        name,
        lambda dtype: build(dtype=dtype),
        decision,
        lambda problem, streams: problem.sample_environment(5, streams),
        lambda problem, X: problem.objective(X),
        lambda problem: (problem.optimal_decision, problem.optimal_expectation),
        **options,
    )


def chance_constrained(name: str, build: Any, decision: int) -> Any:
    return value_at_risk(
        name,
        build,
        decision,
        optimum="optimal_expectation",
        feasible=lambda problem, X: problem.is_feasible_decision(X),
    )


def small_forest(dtype: torch.dtype) -> ForestTuning:
    rows = np.random.default_rng(0)
    labels = np.arange(60) % 2
    return ForestTuning(rows.normal(size=(60, 6)) + labels[:, None], labels, dtype=dtype)


# The path of the papers' back-tests, which are not part of the project.
PORTFOLIO_TABLE = os.environ.get("BOTORCH_RISK_PORTFOLIO_TABLE")
needs_table = pytest.mark.skipif(
    PORTFOLIO_TABLE is None,
    reason="needs the papers' table of back-tests: its path in BOTORCH_RISK_PORTFOLIO_TABLE",
)
# Tables of back-tests: the bundled one and the papers'.
portfolio_tables = pytest.mark.parametrize(
    "portfolio_table",
    [
        pytest.param(None, id="bundled"),
        pytest.param(PORTFOLIO_TABLE, marks=needs_table, id="papers"),
    ],
)

PROBLEMS = [
    environmental("ackley_1", partial(EnvironmentalAckley, 1), 2),
    environmental("ackley_4", partial(EnvironmentalAckley, 4), 2),
    environmental("branin", EnvironmentalBranin, 2),
    environmental("hartmann", EnvironmentalHartmann, 5),
    environmental("complicated_hartmann", partial(EnvironmentalHartmann, "complicated"), 5),
    environmental("newsvendor", Newsvendor, 1),
    chance_constrained("chance_constrained_gramacy", ChanceConstrainedGramacy, 2),
    chance_constrained("chance_constrained_branin", ChanceConstrainedBranin, 2),
    value_at_risk(
        "mixed_newsvendor", MixedNewsvendor, 3, optimum="optimal_conditional_value_at_risk"
    ),
    problem_case(
        "two_objectives",
        lambda dtype: EnvironmentalSchaffer(dtype=dtype),
        2,
        lambda problem, streams: problem.environment.sample(5, streams),
    ),
    *(
        environmental(
            f"portfolio_{distribution}{name}",
            partial(PortfolioOptimization, table, distribution),
            3,
            num_points=64,
            marks=(*marks, pytest.mark.slow),
        )
        for name, table, marks in (
            ("", None, ()),
            ("_of_the_papers", PORTFOLIO_TABLE, (needs_table,)),
        )
        for distribution in ("uniform", "normal")
    ),
    problem_case(
        "portfolio_policy",
        lambda dtype: PortfolioPolicy(dtype=dtype),
        3,
        lambda problem, streams: repeats_of(
            problem, torch.tensor([[20.0, 3.0, 1.5]]).to(problem.bounds), streams
        ),
        lambda problem, X: problem.objective(X),
        lambda problem: problem.optimal_mean_variance(1.0),
    ),
    problem_case(
        "forest",
        small_forest,
        3,
        lambda problem, streams: repeats_of(
            problem, torch.tensor([[3.0, 5.0, 2.0]]).to(problem.bounds), streams
        ),
    ),
    problem_case("robot_pushing", lambda dtype: RobotPushing(dtype=dtype), 3),
    problem_case(
        "robot_pushing_3_2",
        lambda dtype: ValueAtRiskRobotPushing(dtype=dtype),
        3,
        lambda problem, streams: problem.environment.sample(5, streams),
    ),
    value_at_risk(
        "portfolio_3_2", ValueAtRiskPortfolio, 3, num_points=64, marks=(pytest.mark.slow,)
    ),
    value_at_risk(
        "portfolio_3_2_of_the_papers",
        partial(ValueAtRiskPortfolio, PORTFOLIO_TABLE),
        3,
        num_points=64,
        marks=(needs_table, pytest.mark.slow),
    ),
    value_at_risk(
        "table_of_diabetes",
        partial(TabularProblem, "diabetes", "conditional-value-at-risk"),
        2,
        optimum="optimal_risk",
    ),
]
