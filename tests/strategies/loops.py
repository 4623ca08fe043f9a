r"""A short loop of a strategy on a problem of the contract list."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy
from tests.devices import home
from tests.strategies.cases import NUM_REPEATS, PROBLEM, StrategyCase

SEEDS = (0, 1, 2)


def evaluate(strategy: Strategy, X: Tensor, index: int, problem: Any = PROBLEM) -> Tensor:
    r"""Repeats `R x q x k` or `R x q x k x m` at points, with their contexts if there are any.

    The laboratory is on the CPU, wherever the strategy computes.
    """
    streams = generators(strategy.seeds, "observations", index)
    several = strategy.method.num_outcomes > 1
    sample = problem.sample_outcomes if several else problem.sample_repeats
    return sample(X.cpu(), NUM_REPEATS, streams).to(X)


def meet(strategy: Strategy, X: Tensor, index: int, problem: Any = PROBLEM) -> Tensor:
    r"""What is told of points that were asked for: with the contexts that they met, if any."""
    if X.shape[-1] > problem.bounds.shape[-1] or not hasattr(problem, "draw_contexts"):
        return X
    streams = generators(strategy.seeds, "contexts", index)
    return torch.cat([X, problem.draw_contexts(X.cpu(), streams).to(X)], dim=-1)


def play(strategy: Strategy, rounds: int, first: int = 0, problem: Any = PROBLEM) -> list[Tensor]:
    r"""Plays some rounds and returns the points that were asked for."""
    asked = []
    for index in range(first, first + rounds):
        asked.append(strategy.ask())
        told = meet(strategy, asked[-1], index, problem)
        strategy.tell(told, evaluate(strategy, told, index, problem))
    return asked


class Loop(NamedTuple):
    r"""What was asked for in each round and told of it, and what followed from that.

    Args:
        asked: The points, `R x q x d`; the last ones after the last round.
        told: The rows and their outcomes.
        states: The state after each round.
        reported: The recommendation after each round.
    """

    asked: list[Tensor]
    told: list[tuple[Tensor, Tensor]]
    states: list[dict[str, Any]]
    reported: list[Tensor]


_PLAYED: dict[tuple[int, torch.device], tuple[StrategyCase, Loop]] = {}


def undisturbed(case: StrategyCase) -> Loop:
    r"""Three rounds of a case with the replicates `SEEDS`, played once for all tests."""
    key = (id(case), home())
    if key not in _PLAYED:
        _PLAYED[key] = case, _played(case)  # which keeps the case, and with it its id
    return _PLAYED[key][1]


def _played(case: StrategyCase) -> Loop:
    strategy = case.build(SEEDS)
    loop = Loop([strategy.ask()], [], [], [])
    for index in range(3):
        rows = meet(strategy, loop.asked[-1], index, case.problem)
        Y = evaluate(strategy, rows, index, case.problem)
        strategy.tell(rows, Y)
        loop.told.append((rows, Y))
        loop.states.append(strategy.state_dict())
        # A loop recommends after it has asked, which the last bits may show.
        loop.asked.append(strategy.ask())
        loop.reported.append(strategy.recommend())
    return loop


def recommended(strategy: Strategy) -> list[Tensor]:
    r"""What each replicate recommends, `p x d_x`: one decision, a set, or nothing."""
    return decisions_of(strategy.recommend())


def decisions_of(reported: Tensor) -> list[Tensor]:
    r"""The decisions of a recommendation, replicate by replicate."""
    sets = reported if reported.dim() == 3 else reported.unsqueeze(-2)
    return [decisions[~decisions.isnan().any(dim=-1)] for decisions in sets]


def are_among(rows: Tensor, others: Tensor) -> bool:
    r"""Whether each of `p x d` rows is one of `n x d` others."""
    return bool((rows.unsqueeze(-2) == others).all(dim=-1).any(dim=-1).all())
