r"""Experiments whose constraints have to hold with a given probability."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from botorch_risk.constraints import RiskConstraint
from botorch_risk.risk import Expectation
from botorch_risk.strategies import risk_search
from botorch_risk_bench.baselines import constrained_log_ei, random_decisions
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import ChanceConstrainedBranin, ChanceConstrainedGramacy

NOISE_STD = 0.02  # of the objective and of every slack, whose spreads are 0.3 to 1.5
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}  # of both acquisition functions


def strategies(problem: Any) -> dict[str, StrategyFactory]:
    r"""Each method, with what it knows of a problem: the distribution of W, the chance level."""
    constraints = [
        RiskConstraint.chance(
            problem.environment, 0.0, outcome=1 + index, delta=problem.delta, at_most=False
        )
        for index in range(problem.num_constraints)
    ]
    known = {
        "environment": problem.environment,
        "risk_measure": Expectation(),
        "constraints": constraints,
        **SEARCH,
    }
    return {
        "confidence-bound": partial(risk_search, **known),
        "qLogEI": partial(constrained_log_ei, **known),
        "random": partial(random_decisions, **known),
    }


def _definition(name: str, description: str, problem: Callable[..., Any]) -> ExperimentDefinition:
    build = partial(problem, noise_std=NOISE_STD, constraint_noise_std=NOISE_STD)
    example = build()
    chance = 1 - example.delta
    return ExperimentDefinition(
        name=name,
        description=f"{description}, feasible with a probability of {chance:g}",
        problem=build,
        strategies=strategies(example),
        num_initial=10,
        num_rounds=30,
        num_repeats=1,
        objective="expectation of the outcome; an infeasible decision counts as the worst feasible",
        optimal_value=attrgetter("optimal_expectation"),
        settings={"noise_std": NOISE_STD, "delta": example.delta, "search": SEARCH},
    )


EXPERIMENTS = (
    _definition("chance-gramacy", "Gramacy (2, 1), two constraints", ChanceConstrainedGramacy),
    _definition("chance-branin", "Branin (2, 1) in a disk", ChanceConstrainedBranin),
)
