r"""The experiments of SBO-KDE and DRBO-KDE (Huang et al. 2024) on synthetic problems."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from botorch_risk.experiments.environmental import EnvironmentalProblem, build_strategy
from botorch_risk.experiments.registry import ExperimentDefinition, register
from botorch_risk.strategies import (
    DRBOKDE,
    DRBOMMD,
    SBOKDE,
    ContextFreeGPUCB,
    StableOpt,
)
from botorch_risk.test_functions import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    Newsvendor,
    PortfolioOptimization,
)


class ExpectationProblem(EnvironmentalProblem):
    r"""Contexts that are observed, and their true expectation; without noise, as in the paper."""

    @property
    def optimal_value(self) -> float:
        r"""The largest expectation."""
        return self.problem.optimal_expectation


# The paper's budget of the optimiser for its robust methods. Ours take it where the exact ball is
# dearest: the 256 points of the grid in four dimensions are nearly independent.
PAPER_BUDGET = {"num_restarts": 5, "raw_samples": 32}


def _definition(
    name: str, description: str, problem: Any, exact_budget: dict[str, int] | None = None
) -> ExperimentDefinition:
    example = problem()
    context_bounds = example.bounds[:, example.num_decision :]
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "SBO-KDE": (SBOKDE, {}),
        "DRBO-KDE": (DRBOKDE, {}),
        "StableOpt": (StableOpt, {}),
        "GP-UCB": (ContextFreeGPUCB, {}),
        "DRBO-MMD": (DRBOMMD, exact_budget or {}),
        "DRBO-MMD-minimax": (DRBOMMD, {"minimax": True, "num_points": 1024}),
    }
    return ExperimentDefinition(
        name=name,
        description=f"{description}, law of the context unknown (SBO-KDE, Fig. 1)",
        problem=lambda: ExpectationProblem(problem()),
        strategies={
            label: partial(build_strategy, kind, context_bounds, options)
            for label, (kind, options) in kinds.items()
        },
        num_initial=10,
        num_rounds=100,
        num_repeats=1,
        objective="expectation over the context",
        optimal_value=lambda problem: problem.optimal_value,
    )


register(_definition("ackley-4", "Ackley (2+4)", partial(EnvironmentalAckley, 4), PAPER_BUDGET))
for _name, _description, _problem in (
    ("ackley", "Ackley (2+1)", partial(EnvironmentalAckley, 1)),
    ("branin-context", "Modified Branin (2+2)", EnvironmentalBranin),
    ("hartmann", "Hartmann (5+1), normal context", partial(EnvironmentalHartmann, "normal")),
    (
        "hartmann-complicated",
        "Hartmann (5+1), complicated context",
        partial(EnvironmentalHartmann, "complicated"),
    ),
    ("newsvendor", "Newsvendor", Newsvendor),
):
    register(_definition(_name, _description, _problem))


for _law in ("normal", "uniform"):
    register(
        _definition(
            f"bundled-portfolio-{_law}",
            f"Portfolio (3+2), bundled back-tests, {_law} context",
            partial(PortfolioOptimization, law=_law),
        )
    )


def register_portfolio(table: str | PathLike[str]) -> tuple[ExperimentDefinition, ...]:
    r"""Makes `portfolio-normal` and `portfolio-uniform` of the papers' back-tests known.

    Args:
        table: The path of the papers' table; see `PortfolioOptimization`.

    Returns:
        The two experiments.
    """
    return tuple(
        register(
            _definition(
                f"portfolio-{law}",
                f"Portfolio (3+2), {law} context",
                partial(PortfolioOptimization, table, law),
            )
        )
        for law in ("normal", "uniform")
    )
