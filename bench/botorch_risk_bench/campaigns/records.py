r"""The rounds of one experiment in a store, as tables and pictures read them."""

import math
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk_bench.campaigns.database import NoResultsError, StoreError
from botorch_risk_bench.campaigns.journal import RoundRecord
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.campaigns.stored_values import tensor_of


class ExperimentRecords:
    r"""The rounds that all strategies of an experiment have played with the same seeds.

    The functions of `reports` take it. It leaves out seeds that some strategy has not begun, and
    rounds that some seed has not completed.

    Args:
        experiment: The experiment; by default the only one.

    Raises:
        NoResultsError: If no seed was begun by all of them yet. It is a StoreError.
        StoreError: If the campaign has no such experiment or setting, or rounds are missing.
    """

    def __init__(
        self,
        store: CampaignStore,
        experiment: str | None = None,
        setting: str = "default",
        strategies: tuple[str, ...] = (),
    ) -> None:
        if experiment is None:
            known = list(store.identity["experiments"])
            if len(known) != 1:
                raise StoreError(f"Expected one experiment in {store.path}. Got {known}.")
            experiment = known[0]
        self._store, self._experiment, self._setting = store, experiment, setting
        identity = store.identity_in(experiment, setting)
        begun = {
            label: seeds
            for label, seeds in store.begun(experiment, setting).items()
            if not strategies or label in strategies
        }
        common = set.intersection(*begun.values()) if begun else set()
        if not common:
            raise NoResultsError(
                f"Expected seeds that all strategies of {experiment!r}, {setting!r} have begun in "
                f"{store.path}. Got { ({label: sorted(seeds) for label, seeds in begun.items()}) }."
            )
        order = [block.strategy for block in store.blocks()]
        self._labels = [label for label in dict.fromkeys(order) if label in begun]
        self._seeds = sorted(common)
        self._identity = {**identity, "seeds": self._seeds}

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def identity(self) -> dict[str, Any]:
        return self._identity

    @property
    def best_seen(self) -> float:
        return best_seen(self._store, self._experiment, self._setting)

    def labels(self) -> list[str]:
        return list(self._labels)

    def rounds(self, label: str, first: int = 0) -> list[RoundRecord]:
        r"""The rounds of a strategy from `first` on, with all seeds in one batch."""
        rows = [
            row
            for row in self._store.rows(self._experiment, label, self._setting)
            if row[3] in self._identity["seeds"] and row[4] >= first
        ]
        seconds = self._seconds(label)
        found = []
        for index, group in groupby(sorted(rows, key=lambda row: (row[4], row[3])), lambda r: r[4]):
            played = list(group)
            if len(played) < len(self._seeds):
                break
            X, Y, objective, recommendation, value = (
                self._batch([row[column] for row in played]) for column in range(5, 10)
            )
            record = RoundRecord(index, seconds[index], X, Y, objective, recommendation, value)
            found.append(record)
        return found

    def _seconds(self, label: str) -> dict[int, tuple[float, float, float]]:
        r"""Sum the times of all blocks, by round."""
        rows = sorted(
            row[4:] for row in self._store.timings(self._experiment, label, self._setting)
        )
        found: dict[int, tuple[float, float, float]] = {}
        for index, blocks in groupby(rows, key=lambda row: row[0]):
            _, ask, evaluate, tell = map(sum, zip(*blocks, strict=True))
            found[index] = ask, evaluate, tell
        return found

    def _batch(self, texts: list[Any]) -> Any:
        r"""Stack the values of all seeds, `R x ...`, padded with NaN if sets differ in size."""
        if any(text is None for text in texts):
            return None
        dtype, path = self._identity["dtype"], self._store.path
        values = [tensor_of(text, dtype, path) for text in texts]
        size = max(value.shape[0] if value.dim() else 0 for value in values)
        return torch.stack([_padded(value, size) for value in values])


def best_seen(store: CampaignStore, experiment: str, setting: str = "default") -> float:
    r"""The largest true objective of an experiment in a store, to take the regret against.

        max f(x)   over all x evaluated or recommended, by any strategy, in any round, for any seed

    If the optimum is unknown, this is the largest lower bound of it that the store can give; as the
    objective is the true one, noise does not inflate it. All seeds and strategies share it: their
    regrets are too small by the same number, so differences of the regret, paired by seed or not,
    are those against the optimum. A best value for each seed would not do that: it would call a
    seed solved in which every strategy failed. Ratios are not kept: the log regret and the board's
    targets, which are fractions of the first regret, are of this number, and it may increase with
    each round, seed and strategy that the store gets. If each seed has a problem of its own, only
    the differences have a meaning.

    Returns:
        The value; minus infinity if no true objective is known.
    """
    dtype, found = store.identity_in(experiment, setting)["dtype"], [-math.inf]
    for label in store.begun(experiment, setting):
        for row in store.rows(experiment, label, setting):
            found += [
                tensor_of(text, dtype, store.path).nan_to_num(-math.inf).max().item()
                for text in (row[7], row[9])
                if text is not None
            ]
    return max(found)


def records_by_series(
    store: CampaignStore, experiment: str, setting: str = "default"
) -> list[ExperimentRecords]:
    r"""Read the rounds of an experiment separately for each series that has begun.

    A strategy with more seeds than others keeps them all.

    Args:
        experiment: The experiment; if the campaign has none of this name, the list is empty.
    """
    begun, found = store.begun(experiment, setting), []
    for series in store.campaign.series:
        if experiment not in series.experiments or setting not in series.settings:
            continue
        labels = tuple(label for label in series.strategies or begun if label in begun)
        if labels:
            found.append(ExperimentRecords(store, experiment, setting, labels))
    return found


def _padded(value: Tensor, size: int) -> Tensor:
    missing = size - value.shape[0] if value.dim() else 0
    after = [0, 0] * (value.dim() - 1) + [0, missing]
    return pad(value, after, value=torch.nan) if missing else value
