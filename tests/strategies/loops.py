r"""A short loop of a strategy on a problem of the contract list."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy
from tests.contracts import NUM_REPEATS, PROBLEM


def evaluate(strategy: Strategy, X: Tensor, index: int, problem: Any = PROBLEM) -> Tensor:
    streams = generators(strategy.seeds, "observations", index)
    return problem.sample_repeats(X, NUM_REPEATS, streams)


def play(strategy: Strategy, rounds: int, first: int = 0, problem: Any = PROBLEM) -> list[Tensor]:
    r"""Plays some rounds and returns the points that were asked for."""
    asked = []
    for index in range(first, first + rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], evaluate(strategy, asked[-1], index, problem))
    return asked
