r"""What a strategy knew after each round, from the outcomes that are stored.

The store keeps the last state of a strategy and the outcomes of all rounds. Since a strategy is
a function of its seeds and its data, telling the outcomes to a fresh one restores every state
in between, without asking for anything again: the posterior of each round need not be stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_risk.acquisition import LevelSet
from botorch_risk.test_functions import FiniteDomainProblem
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.experiments.records import Records
from botorch_risk_bench.metrics import classify_by_mean, level_set_scores


class LevelSetCurves(NamedTuple):
    r"""How well a level set was known for what it had cost.

    Attributes:
        cost: `R x (T + 1)`, what all samples had cost after the initial design and each round.
        f1: `R x (T + 1)`, the F1 score of the points whose posterior mean is at least the level.
    """

    cost: Tensor
    f1: Tensor


def common_costs(curves: Mapping[str, LevelSetCurves], num_costs: int) -> Tensor:
    r"""Evenly spaced costs that all runs have reached, `num_costs`.

    From the largest of what the first samples cost to the smallest of the strategies' median ends.
    """
    first = max(curve.cost[:, 0].max() for curve in curves.values())
    last = min(curve.cost[:, -1].median() for curve in curves.values())
    return torch.linspace(float(first), float(last), num_costs, dtype=torch.double)


def score_at_cost(curve: LevelSetCurves, costs: Tensor) -> Tensor:
    r"""F1 scores `R x n` for what had been paid by `n` costs; NaN before the first sample.

    Example:
        >>> curve = LevelSetCurves(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.2, 0.6]]))
        >>> score_at_cost(curve, torch.tensor([0.5, 2.0, 9.0]))
        tensor([[  nan, 0.2000, 0.6000]])
    """
    asked = costs.expand(len(curve.cost), -1).contiguous()
    last = torch.searchsorted(curve.cost.contiguous(), asked, right=True)
    found = curve.f1.gather(-1, (last - 1).clamp_min(0))
    return found.where(last > 0, torch.nan)


def replay(store: Records, definition: ExperimentDefinition, label: str) -> Iterator[Any]:
    r"""The strategy after the initial design and after each completed round.

    It is one object, which moves on. Selecting the points took most of the time, and is left out.

    Args:
        store: The store.
        definition: The experiment that it is of.
        label: The strategy.
    """
    space = decision_space(definition.problem())
    strategy: Any = definition.build(label, space, store.identity["seeds"])
    for record in store.rounds(label):
        if record.recommendation is None:
            return
        strategy.tell(record.X, record.Y)
        yield strategy


def final_strategy(store: Records, definition: ExperimentDefinition, label: str) -> Any:
    r"""The strategy after its last completed round, from its outcomes.

    So it does not matter which version of the package has stored its state.

    Args:
        store: The store.
        definition: The experiment that it is of.
        label: The strategy.

    Raises:
        ValueError: If no round is completed.
    """
    strategy = None
    for strategy in replay(store, definition, label):  # noqa: B007 it moves on
        pass
    if strategy is None:
        raise ValueError(f"Expected a completed round of {label!r} in {store.path}. Got none.")
    return strategy


def level_set_curves(
    store: Records, definition: ExperimentDefinition, label: str
) -> LevelSetCurves:
    r"""Cost and F1 score of a strategy on a finite domain, round by round.

    All methods are scored by the posterior mean ([Bogunovic2016truvar]_, Sec. 4).

    Args:
        store: The store.
        definition: An experiment with a `threshold`, on a finite domain.
        label: The strategy.

    Raises:
        ValueError: If the experiment has no threshold.
    """
    threshold, problem = definition.threshold, definition.problem()
    if threshold is None or not isinstance(problem, FiniteDomainProblem):
        raise ValueError(
            "Expected an experiment with a threshold on a finite domain. Got "
            f"{definition.name=}, {threshold=}, {type(problem).__name__=}."
        )
    truth = problem.values >= threshold
    costs, scores = [], []
    for strategy in replay(store, definition, label):
        score = torch.full((len(strategy.seeds),), torch.nan, dtype=torch.double)
        for replicates, view in strategy.views:
            sets = classify_by_mean(view.belief.posterior, LevelSet(threshold))
            score[replicates] = level_set_scores(sets.high, truth).f1.double()
        scores.append(score)
        costs.append(strategy.state["cost"])
    return LevelSetCurves(torch.stack(costs, dim=-1), torch.stack(scores, dim=-1))
