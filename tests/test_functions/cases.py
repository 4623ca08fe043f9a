r"""Every problem, one line each; `test_contract.py` tests what they share."""

import os
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.test_functions import Branin
from botorch_risk_bench.problems import (
    ForestTuning,
    PortfolioOptimization,
    PortfolioPolicy,
    RobotPushing,
    TabularProblem,
    ValueAtRiskPortfolio,
    ValueAtRiskRobotPushing,
)
from torch import Tensor

from botorch_risk.test_functions import (
    H1,
    CertifiedProblem,
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    Deceptive,
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    EnvironmentalSchaffer,
    FiniteDomainProblem,
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
    MaximizedTestFunction,
    MixedNewsvendor,
    Newsvendor,
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
)
from botorch_risk.testing.problems import ProblemCase, first_optimizer, value_without_noise


def problem_case(
    name: str,
    build: Any,
    decision: int,
    sample: Any = None,
    objective: Any = None,
    optimum: Any = None,
    marks: tuple[Any, ...] = (),
    **options: Any,
) -> Any:
    r"""A case with the marks of pytest."""
    functions = {"sample": sample, "objective": objective, "optimum": optimum}
    case = ProblemCase(name=name, build=build, decision=decision, **functions, **options)
    return pytest.param(case, id=name, marks=marks)


def heteroscedastic(name: str, kind: Any, dim: int, **options: Any) -> Any:
    return problem_case(
        name,
        lambda dtype: kind(**options).to(dtype=dtype),
        dim,
        lambda problem, streams: repeats_of(problem, problem.optimizers[:1], streams),
        lambda problem, X: problem.mean_variance(X, risk_aversion=1.0),
        lambda problem: problem.optimal_mean_variance(1.0),
    )


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


def value_at_risk(
    name: str, build: Any, decision: int, optimum: str = "optimal_value_at_risk", **options: Any
) -> Any:
    return problem_case(
        name,
        lambda dtype: build(dtype=dtype),
        decision,
        lambda problem, streams: problem.environment.sample(5, streams),
        lambda problem, X: problem.objective(X),
        lambda problem: (problem.optimal_decision, getattr(problem, optimum)),
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


def without_noise(name: str, kind: Any, dim: int) -> Any:
    return problem_case(
        name,
        lambda dtype: kind(dtype=dtype),
        dim,
        objective=value_without_noise,
        optimum=first_optimizer,
    )


def repeats_of(problem: Any, X: Tensor, streams: Any) -> Tensor:
    if not isinstance(streams, torch.Generator):
        X = X.expand(len(streams), *X.shape)
    return problem.sample_repeats(X, 3, streams)


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
    heteroscedastic("sine", HeteroscedasticSine, 1),
    heteroscedastic("sine_of_variance", HeteroscedasticSine, 1, sigmoid_is="variance"),
    heteroscedastic("heteroscedastic_branin", HeteroscedasticBranin, 2, noise_scale=2.0),
    heteroscedastic("camel", HeteroscedasticCamel, 2),
    heteroscedastic("hartmann_3", HeteroscedasticHartmann, 3),
    heteroscedastic("hartmann_6", partial(HeteroscedasticHartmann, 6), 6),
    environmental("ackley_1", partial(EnvironmentalAckley, 1), 2),
    environmental("ackley_4", partial(EnvironmentalAckley, 4), 2),
    environmental("branin", EnvironmentalBranin, 2),
    environmental("hartmann", EnvironmentalHartmann, 5),
    environmental("complicated_hartmann", partial(EnvironmentalHartmann, "complicated"), 5),
    environmental("newsvendor", Newsvendor, 1),
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
    without_noise("deceptive", Deceptive, 2),
    without_noise("h1", H1, 2),
    problem_case(
        "finite_domain",
        lambda dtype: FiniteDomainProblem(torch.eye(2, dtype=dtype), torch.ones(2), noise=0.1),
        2,
        lambda problem, streams: repeats_of(problem, problem.domain, streams),
    ),
    problem_case("robot_pushing", lambda dtype: RobotPushing(dtype=dtype), 3),
    problem_case(
        "robot_pushing_3_2",
        lambda dtype: ValueAtRiskRobotPushing(dtype=dtype),
        3,
        lambda problem, streams: problem.environment.sample(5, streams),
    ),
    problem_case(
        "maximized_branin",
        lambda dtype: MaximizedTestFunction(Branin(dtype=dtype)),
        2,
        objective=value_without_noise,
        optimum=first_optimizer,
    ),
    *(
        value_at_risk(f"{name}_{kind}", partial(build, distribution=kind), decision, num_points=64)
        for kind in ("discrete", "continuous")
        for name, build, decision in (
            ("branin_1_1", ValueAtRiskBranin, 1),
            ("goldstein_price_1_1", ValueAtRiskGoldsteinPrice, 1),
            ("hartmann_2_1", partial(ValueAtRiskHartmann, 2), 2),
        )
    ),
    value_at_risk("hartmann_1_2", partial(ValueAtRiskHartmann, 1), 1),
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
    chance_constrained("chance_constrained_gramacy", ChanceConstrainedGramacy, 2),
    chance_constrained("chance_constrained_branin", ChanceConstrainedBranin, 2),
    value_at_risk(
        "mixed_newsvendor", MixedNewsvendor, 3, optimum="optimal_conditional_value_at_risk"
    ),
    value_at_risk(
        "certified_branin",
        partial(CertifiedProblem, "branin", "conditional-value-at-risk"),
        1,
        optimum="optimal_risk",
    ),
    value_at_risk(
        "table_of_diabetes",
        partial(TabularProblem, "diabetes", "conditional-value-at-risk"),
        2,
        optimum="optimal_risk",
    ),
    problem_case(
        "two_objectives",
        lambda dtype: EnvironmentalSchaffer(dtype=dtype),
        2,
        lambda problem, streams: problem.environment.sample(5, streams),
    ),
]
