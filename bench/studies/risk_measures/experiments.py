r"""Four problems with certified optima of a risk, and the methods that are compared on them."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import CVaR, Expectation, VaR
from botorch_risk_bench.baselines import botorch_risk_measure, random_decisions
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.problems import EnvironmentalBranin, EnvironmentalHartmann, MixedNewsvendor
from torch.distributions import Normal

from botorch_risk import risk
from botorch_risk.environments import ContinuousEnvironment, Environment
from botorch_risk.robust import MonteCarloDecision
from botorch_risk.strategies import risk_search
from botorch_risk.test_functions import ValueAtRiskBranin

NUM_ROUNDS = 30
N_W = 32  # values of W, or a square of a few more
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}  # of every acquisition function


def branin_var() -> ValueAtRiskBranin:
    r"""V-UCB's first problem, (1, 1), with a continuous W."""
    return ValueAtRiskBranin(distribution="continuous")


def branin_mean() -> EnvironmentalBranin:
    r"""SBO-KDE's modified Branin, (2, 2)."""
    return EnvironmentalBranin(noise_std=0.1)


def hartmann_mean() -> EnvironmentalHartmann:
    r"""SBO-KDE's Hartmann, (5, 1): six inputs."""
    return EnvironmentalHartmann(noise_std=0.05)


def newsvendor() -> MixedNewsvendor:
    r"""A price, a number of lots and a supplier, (3, 1)."""
    return MixedNewsvendor(noise_std=0.05)


def of_few_values(problem: Any, n_w: int) -> Environment:
    r"""The distribution of W of a problem by the midpoints of quantiles."""
    bounds = problem.bounds[:, problem.num_decision :]
    return ContinuousEnvironment(
        problem.marginals, bounds, n_w=n_w, rule="midpoints", beyond="clip"
    )


def cut_normal() -> Environment:
    r"""V-UCB's distribution, a normal one cut at two deviations, by the midpoints of quantiles."""
    bounds = torch.tensor([[0.25], [0.75]], dtype=torch.double)
    normal = Normal(torch.tensor(0.5, dtype=torch.double), 0.125)
    return ContinuousEnvironment(normal, bounds, n_w=N_W, rule="midpoints")


def _definition(
    name: str,
    problem: Callable[[], Any],
    environment: Environment,
    measure: risk.RiskMeasure,
    of_botorch: Any,
    optimal_value: str,
) -> ExperimentDefinition:
    known = {"environment": environment, "risk_measure": measure, **SEARCH}
    return ExperimentDefinition(
        name=name,
        description=str(problem.__doc__),
        problem=problem,
        strategies={
            "confidence-bound": partial(risk_search, **known),
            "qLogNEI-robust": partial(
                risk_search, decide=MonteCarloDecision(qLogNoisyExpectedImprovement), **known
            ),
            "qLogNEI-BoTorch": partial(
                botorch_risk_measure, objective=of_botorch, n_w=N_W, **known
            ),
            "random": partial(random_decisions, **known),
        },
        num_initial=10,
        num_rounds=NUM_ROUNDS,
        num_repeats=1,
        objective=f"{measure}",
        optimal_value=attrgetter(optimal_value),
        settings={"search": SEARCH, "n_w": N_W},
    )


def _experiments() -> tuple[ExperimentDefinition, ...]:
    level, tail = ValueAtRiskBranin.risk_level, MixedNewsvendor.risk_level
    branin, hartmann = branin_mean(), hartmann_mean()
    return (
        _definition(
            "study-branin-var",
            branin_var,
            cut_normal(),
            risk.ValueAtRisk(level),
            partial(VaR, alpha=1 - level),
            "optimal_value_at_risk",
        ),
        _definition(
            "study-branin-mean",
            branin_mean,
            of_few_values(branin, 36),
            risk.Expectation(),
            Expectation,
            "optimal_expectation",
        ),
        _definition(
            "study-newsvendor-cvar",
            newsvendor,
            newsvendor().environment,
            risk.ConditionalValueAtRisk(tail),
            partial(CVaR, alpha=1 - tail),
            "optimal_conditional_value_at_risk",
        ),
        _definition(
            "study-hartmann-mean",
            hartmann_mean,
            of_few_values(hartmann, N_W),
            risk.Expectation(),
            Expectation,
            "optimal_expectation",
        ),
    )


EXPERIMENTS = _experiments()
