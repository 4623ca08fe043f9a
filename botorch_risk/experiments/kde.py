r"""The experiments of SBO-KDE and DRBO-KDE (Huang et al. 2024) on synthetic problems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

from torch import Generator, Tensor

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
    EnvironmentalTestProblem,
    Newsvendor,
    PortfolioOptimization,
)


class ExpectationProblem:
    r"""A problem with contexts whose true objective is the expectation over their law."""

    def __init__(self, problem: EnvironmentalTestProblem) -> None:
        r"""Takes the problem of (x, w)."""
        self.problem = problem

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decision, `2 x d_x`."""
        return self.problem.bounds[:, : self.problem.num_decision]

    @property
    def optimal_value(self) -> float:
        r"""The largest expectation."""
        return self.problem.optimal_expectation

    def draw_contexts(self, X: Tensor, generators: list[Generator]) -> Tensor:
        r"""Contexts `R x q x d_w` from the law, clipped to their bounds."""
        return self.problem.sample_environment(X.shape[-2], generators)

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        r"""The outcome `R x q x k` of decisions with contexts; without noise, as in the paper."""
        values = self.problem(X, noise=False).unsqueeze(-1)
        return values.expand(*values.shape[:-1], num_repeats)

    def objective(self, X: Tensor) -> Tensor:
        r"""The true expectation, `R x q x d_x -> R x q`."""
        return self.problem.objective(X)


def _strategy(
    kind: Any,
    context_bounds: Tensor,
    options: dict[str, Any],
    bounds: Tensor,
    seeds: Sequence[int],
    num_initial: int,
) -> Any:
    return kind(bounds, context_bounds, seeds, num_initial=num_initial, **options)


def _definition(name: str, description: str, problem: Any) -> ExperimentDefinition:
    example = problem()
    context_bounds = example.bounds[:, example.num_decision :]
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "SBO-KDE": (SBOKDE, {}),
        "DRBO-KDE": (DRBOKDE, {}),
        "StableOpt": (StableOpt, {}),
        "GP-UCB": (ContextFreeGPUCB, {}),
        "DRBO-MMD": (DRBOMMD, {}),
        "DRBO-MMD-minimax": (DRBOMMD, {"minimax": True, "num_points": 1024}),
    }
    return ExperimentDefinition(
        name=name,
        description=f"{description}, law of the context unknown (SBO-KDE, Fig. 1)",
        problem=lambda: ExpectationProblem(problem()),
        strategies={
            label: partial(_strategy, kind, context_bounds, options)
            for label, (kind, options) in kinds.items()
        },
        num_initial=10,
        num_rounds=100,
        num_repeats=1,
        objective="expectation over the context",
        optimal_value=lambda problem: problem.optimal_value,
    )


for _name, _description, _problem in (
    ("ackley", "Ackley (2+1)", partial(EnvironmentalAckley, 1)),
    ("ackley-4", "Ackley (2+4)", partial(EnvironmentalAckley, 4)),
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


def register_portfolio(table: str | PathLike[str]) -> tuple[ExperimentDefinition, ...]:
    r"""Makes `portfolio-normal` and `portfolio-uniform` known, which need the user's data.

    Args:
        table: The table that `PortfolioOptimization` reads.

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
