r"""Experiments on decisions with integers or categories."""

from functools import partial
from operator import attrgetter
from typing import Any

from botorch_risk.papers import sbo_kde
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.strategies import risk_search
from botorch_risk_bench.baselines import random_decisions
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import MixedNewsvendor

NOISE_STD = 0.05


def strategies(problem: MixedNewsvendor) -> dict[str, StrategyFactory]:
    r"""Each method, with what it knows of a problem.

    The distribution of W is known to all but SBO-KDE, which learns it and maximises the
    expectation: what a user gets who does not mind the risk.
    """
    known: dict[str, Any] = {
        "environment": problem.environment,
        "risk_measure": ConditionalValueAtRisk(problem.risk_level),
    }
    contexts = problem.bounds[:, problem.num_decision :]
    return {
        "CVaR-UCB": partial(risk_search, **known),
        "SBO-KDE": partial(sbo_kde, context_bounds=contexts),
        "random": partial(random_decisions, **known),
    }


def _definition() -> ExperimentDefinition:
    build = partial(MixedNewsvendor, noise_std=NOISE_STD)
    example = build()
    level = f"{example.risk_level:g}"
    return ExperimentDefinition(
        name="mixed-newsvendor",
        description=f"Newsvendor (3, 1) of a price, an integer and a category, CVaR at {level}",
        problem=build,
        strategies=strategies(example),
        num_initial=10,
        num_rounds=40,
        num_repeats=1,
        objective=f"conditional value-at-risk of the profit at level {level}",
        optimal_value=attrgetter("optimal_conditional_value_at_risk"),
        settings={"noise_std": NOISE_STD},
    )


EXPERIMENTS = (_definition(),)
