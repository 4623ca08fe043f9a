r"""Restore a strategy's state after each round from the stored outcomes.

The store keeps the last state of a strategy and the outcomes of all rounds. Since a strategy is
a function of its seeds and its data, telling the outcomes to a fresh one restores every state
in between, without asking for anything again: the posterior of each round need not be stored.
"""

from collections.abc import Iterator
from typing import Any

from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import decision_space


def replay(store: ExperimentRecords, definition: ExperimentDefinition, label: str) -> Iterator[Any]:
    r"""Yield the strategy after the initial design and after each completed round.

    It is the same object each time. Selecting points, which takes most of the time, is skipped.
    """
    space = decision_space(definition.problem())
    strategy: Any = definition.build(label, space, store.identity["seeds"])
    for record in store.rounds(label):
        strategy.tell(record.X, record.Y)
        yield strategy


def final_strategy(store: ExperimentRecords, definition: ExperimentDefinition, label: str) -> Any:
    r"""Restore the strategy after its last completed round from its outcomes.

    So a state that another version of the package stored does not matter.
    """
    strategy = None
    for strategy in replay(store, definition, label):  # noqa: B007 it moves on
        pass
    if strategy is None:
        raise ValueError(f"Expected a completed round of {label!r} in {store.path}. Got none.")
    return strategy
