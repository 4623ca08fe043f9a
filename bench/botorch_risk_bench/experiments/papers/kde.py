r"""The experiments of SBO-KDE and DRBO-KDE [Huang2024kde]_ on synthetic problems."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import Any

import torch

from botorch_risk.strategies import drbo_kde, drbo_mmd, sbo_kde
from botorch_risk.test_functions import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    ExpectationTestProblem,
    Newsvendor,
)
from botorch_risk_bench.baselines import context_free_gp_ucb, stable_opt
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.problems import PortfolioOptimization

METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SBO-KDE": (sbo_kde, {}),
    "DRBO-KDE": (drbo_kde, {}),
    "StableOpt": (stable_opt, {}),
    "GP-UCB": (context_free_gp_ucb, {}),
    "DRBO-MMD": (drbo_mmd, {}),
    "DRBO-MMD-minimax": (drbo_mmd, {"minimax": True, "num_points": 1024}),
}
# The paper's budget of the optimiser for its robust methods. Ours take it where the exact ball is
# most expensive: the 256 points of the grid in four dimensions are nearly independent.
PAPER_BUDGET = {"DRBO-MMD": {"num_restarts": 5, "raw_samples": 32}}


def _definition(
    name: str,
    description: str,
    problem: Callable[[], ExpectationTestProblem],
    num_contexts: int,
    budget: dict[str, dict[str, Any]] | None = None,
) -> ExperimentDefinition:
    unit_cube = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, num_contexts)
    return ExperimentDefinition(
        name=name,
        description=f"{description}, distribution of the context unknown (SBO-KDE, Fig. 1)",
        problem=problem,
        strategies={
            label: partial(
                method, context_bounds=unit_cube, **options, **(budget or {}).get(label, {})
            )
            for label, (method, options) in METHODS.items()
        },
        num_initial=10,
        num_rounds=100,
        num_repeats=1,
        objective="expectation over the context",
        optimal_value=attrgetter("optimal_expectation"),
    )


def portfolio(table: str | PathLike[str]) -> tuple[ExperimentDefinition, ...]:
    r"""The experiments `portfolio-normal` and `portfolio-uniform` on the papers' back-tests."""
    return tuple(
        _definition(
            f"portfolio-{name}",
            f"Portfolio (3+2), {name} context",
            partial(PortfolioOptimization, table, name),
            2,
        )
        for name in ("normal", "uniform")
    )


EXPERIMENTS = (
    _definition("ackley-4", "Ackley (2+4)", partial(EnvironmentalAckley, 4), 4, PAPER_BUDGET),
    _definition("ackley", "Ackley (2+1)", partial(EnvironmentalAckley, 1), 1),
    _definition("branin-context", "Modified Branin (2+2)", EnvironmentalBranin, 2),
    _definition("hartmann", "Hartmann (5+1), normal context", EnvironmentalHartmann, 1),
    _definition(
        "hartmann-complicated",
        "Hartmann (5+1), complicated context",
        partial(EnvironmentalHartmann, "complicated"),
        1,
    ),
    _definition("newsvendor", "Newsvendor", Newsvendor, 1),
    *(
        _definition(
            f"bundled-portfolio-{name}",
            f"Portfolio (3+2), bundled back-tests, {name} context",
            partial(PortfolioOptimization, distribution=name),
            2,
        )
        for name in ("normal", "uniform")
    ),
)
