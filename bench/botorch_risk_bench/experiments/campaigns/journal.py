r"""What a worker has recorded of a block: in memory, and in a folder that outlives it."""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from botorch_risk.strategies.arguments import from_json, to_json
from botorch_risk_bench.experiments.records import RoundRecord
from botorch_risk_bench.experiments.serialization import StoreError, checksum
from botorch_risk_bench.experiments.whole_files import replacing

_OUTCOMES = ("X", "Y", "objective")
_COMPLETED = ("recommendation", "recommended_objective")
_ROUNDS, _STATE = ".jsonl", ".state"


class Journal:
    r"""The rounds of one block, for the worker that plays them.

    With a folder, each round is also there before the next begins: its outcomes as soon as they
    are evaluated, and then what the strategy made of them. A worker that takes a block up finds
    the rounds of those that have died, and does not play them again. Each worker appends to a
    file of its own, so that a file system of many machines needs no locks; a line that was cut
    off, or does not fit its checksum, ends what is read of a file.

    Args:
        last_round: The last round that the campaign's store has, -1 before any.
        state: The strategy's state then.
        folder: The folder of the block; None keeps all in memory.

    Example:
        >>> journal = Journal(-1, None)
        >>> journal.add_strategy("random", "RandomPoints")
        >>> journal.progress("random"), journal.kind
        ((-1, None), 'RandomPoints')
    """

    def __init__(
        self, last_round: int, state: dict[str, Any] | None, folder: Path | None = None
    ) -> None:
        self.kind = ""
        self._last_round, self._state = last_round, state
        self._completed: list[RoundRecord] = []
        self._pending: RoundRecord | None = None
        self._file = None if folder is None else folder / f"{uuid.uuid4().hex}{_ROUNDS}"
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._take_up(self._file.parent)

    def add_strategy(self, label: str, kind: str) -> None:
        r"""Takes note of the kind of the strategy."""
        self.kind = kind

    def progress(self, label: str) -> tuple[int, dict[str, Any] | None]:
        r"""The last round that was completed, -1 before any, and the state then."""
        return self._last_round, self._state

    def rounds(self, label: str, first: int = 0) -> list[RoundRecord]:
        r"""The round `first` if its outcomes are there and the strategy has not had them."""
        pending = self._pending
        return [] if pending is None or pending.index != first else [pending]

    def record_outcomes(
        self,
        label: str,
        index: int,
        X: Tensor,
        Y: Tensor,
        objective: Tensor | None,
        seconds: tuple[float, float],
    ) -> None:
        r"""Keeps the outcomes of a round, before `tell`; arguments as in `ExperimentStore`."""
        record = RoundRecord(index, (*seconds, None), X, Y, objective, None, None)
        self._append({"seconds": seconds, **_encoded(record, _OUTCOMES)}, index)
        self._pending = record

    def record_tell(
        self,
        label: str,
        index: int,
        recommendation: Tensor,
        recommended_objective: Tensor | None,
        state: dict[str, Any],
        seconds: float,
    ) -> None:
        r"""Keeps what a strategy made of a round, and its state."""
        if self._pending is None or self._pending.index != index:
            raise StoreError(f"Expected the outcomes of round {index} before `tell`. Got none.")
        record = dataclasses.replace(
            self._pending,
            seconds=(*self._pending.seconds[:2], seconds),
            recommendation=recommendation,
            recommended_objective=recommended_objective,
        )
        self._append({"seconds": seconds, "completed": True, **_encoded(record, _COMPLETED)}, index)
        self._save({"round": index, "kind": self.kind, "state": state})
        self._complete(record, state)

    def take(self) -> list[RoundRecord]:
        r"""The rounds that were completed since the last call."""
        completed, self._completed = self._completed, []
        return completed

    def _complete(self, record: RoundRecord, state: dict[str, Any]) -> None:
        self._completed.append(record)
        self._pending, self._last_round, self._state = None, record.index, state

    def _append(self, values: dict[str, Any], index: int) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                _write(file, {"round": index, "completed": False, **values})

    def _save(self, values: dict[str, Any]) -> None:
        r"""Replaces the stored state: all states of a long run would be of quadratic size."""
        if self._file is not None:
            with (
                replacing(self._file.with_suffix(_STATE)) as written,
                written.open("w", encoding="utf-8") as file,
            ):
                _write(file, values)

    def _take_up(self, folder: Path) -> None:
        r"""Goes on from the rounds that workers before this one have left in the folder."""
        lines = {
            (line["round"], line["completed"]): line
            for path in sorted(folder.glob(f"*{_ROUNDS}"))
            for line in _intact(path)
        }
        states = [line for path in sorted(folder.glob(f"*{_STATE}")) for line in _intact(path)]
        for saved in sorted(states, key=lambda each: each["round"]):
            first, last = self._last_round + 1, saved["round"] + 1
            new = [_completed(lines, index) for index in range(first, last)]
            if new and all(record is not None for record in new):
                self._completed += [record for record in new if record is not None]
                self._last_round, self._state = saved["round"], saved["state"]
                self.kind = saved["kind"]
        if (line := lines.get((self._last_round + 1, False))) is not None:
            self._pending = _pending(line)


def _pending(line: dict[str, Any]) -> RoundRecord:
    seconds = (*line["seconds"], None)
    X, Y, objective = (_decoded(line, name) for name in _OUTCOMES)
    return RoundRecord(line["round"], seconds, X, Y, objective, None, None)


def _completed(lines: dict[tuple[int, bool], dict[str, Any]], index: int) -> RoundRecord | None:
    r"""A round that is there with what the strategy made of it."""
    outcomes, result = lines.get((index, False)), lines.get((index, True))
    if outcomes is None or result is None:
        return None
    recommendation, objective = (_decoded(result, name) for name in _COMPLETED)
    return dataclasses.replace(
        _pending(outcomes),
        seconds=(*outcomes["seconds"], result["seconds"]),
        recommendation=recommendation,
        recommended_objective=objective,
    )


def _encoded(record: RoundRecord, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in names}
    return {name: None if value is None else to_json(value) for name, value in values.items()}


def _decoded(line: dict[str, Any], name: str) -> Any:
    return None if line[name] is None else from_json(line[name])


def _write(file: IO[str], values: dict[str, Any]) -> None:
    text = json.dumps(values)
    file.write(f"{checksum(text).hex()} {text}\n")
    file.flush()
    os.fsync(file.fileno())


def _intact(path: Path) -> Iterator[dict[str, Any]]:
    r"""The lines of a file up to the first that is not as it was written."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, text = line.partition(" ")
        if digest != checksum(text).hex():
            return
        yield json.loads(text)
