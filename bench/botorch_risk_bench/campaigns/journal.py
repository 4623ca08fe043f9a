r"""The rounds of one strategy while it runs: in memory, and in a folder that outlives it."""

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from botorch_risk.strategies.built_with import from_json, to_json
from botorch_risk_bench.campaigns.database import StoreError, checksum
from botorch_risk_bench.campaigns.whole_files import replacing

_OUTCOMES = ("X", "Y", "objective")
_COMPLETED = ("recommendation", "recommended_objective")
_ROUNDS, _STATE = ".jsonl", ".state"


@dataclass(frozen=True)
class Outcomes:
    r"""The outcomes of a round, before the strategy is told; see `RoundRecord`."""

    index: int
    seconds: tuple[float, float]
    X: Tensor
    Y: Tensor
    objective: Tensor | None


@dataclass(frozen=True)
class RoundRecord:
    r"""One completed round of one strategy.

    Args:
        index: The number of the round; 0 is the initial design.
        seconds: The time that asking, evaluating and telling took.
        X: The evaluated points, `R x q x d`.
        Y: Their repeats, `R x q x k`, NaN where one failed; `R x q x k x m` of several outcomes.
        objective: The true risk objective at `X`, `R x q`, if the problem knows it.
        recommendation: The recommended points after this round, `R x d`, or sets of them,
            `R x p x d`, NaN where one has fewer than p.
        recommended_objective: The true risk objective there, `R`; of sets, their hypervolume.
    """

    index: int
    seconds: tuple[float, float, float]
    X: Tensor
    Y: Tensor
    objective: Tensor | None
    recommendation: Tensor
    recommended_objective: Tensor | None


class Journal:
    r"""The rounds of one strategy while it is played.

    With a folder, each round is on disk before the next begins: its outcomes as soon as they are
    evaluated, then the recommendation and the state. A process that resumes the strategy reads the
    rounds of processes that died, and does not play them again. Each process appends to its own
    file, so a shared file system needs no locks. Reading stops at a line that is cut off or does
    not fit its checksum.

    Args:
        last_round: The last round that a store has, -1 before any.
        state: The strategy's state then.
        folder: The folder of the strategy; None keeps all in memory.

    Attributes:
        kind: The kind of the strategy.
        pending: The round whose outcomes are there and which the strategy has not been told.
    """

    def __init__(
        self, last_round: int = -1, state: dict[str, Any] | None = None, folder: Path | None = None
    ) -> None:
        self.kind = ""
        self.last_round, self.state = last_round, state
        self.pending: Outcomes | None = None
        self._completed: list[RoundRecord] = []
        self._file = None if folder is None else folder / f"{uuid.uuid4().hex}{_ROUNDS}"
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._take_up(self._file.parent)

    def record_outcomes(
        self,
        index: int,
        X: Tensor,
        Y: Tensor,
        objective: Tensor | None,
        seconds: tuple[float, float],
    ) -> None:
        r"""Record outcomes before `tell`, and the seconds of asking and evaluating."""
        given = [each for each in (X, Y, objective) if each is not None]
        if any(each.shape[:2] != X.shape[:2] for each in given) or X.ndim != 3:
            raise StoreError(
                f"Expected round {index} to have `X: R x q x d`, `Y: R x q x k (x m)` and "
                f"`objective: R x q`. Got the shapes {[tuple(each.shape) for each in given]}."
            )
        outcomes = Outcomes(index, seconds, X, Y, objective)
        self._append({"seconds": seconds, **_encoded(outcomes, _OUTCOMES)}, index)
        self.pending = outcomes

    def record_tell(
        self,
        index: int,
        recommendation: Tensor,
        recommended_objective: Tensor | None,
        state: dict[str, Any],
        seconds: float,
    ) -> None:
        if self.pending is None or self.pending.index != index:
            raise StoreError(f"Expected the outcomes of round {index} before `tell`. Got none.")
        record = _told(self.pending, seconds, recommendation, recommended_objective)
        self._append({"seconds": seconds, "completed": True, **_encoded(record, _COMPLETED)}, index)
        self._save({"round": index, "kind": self.kind, "state": state})
        self._completed.append(record)
        self.pending, self.last_round, self.state = None, index, state

    def take(self) -> list[RoundRecord]:
        r"""Return the rounds completed since the last call."""
        completed, self._completed = self._completed, []
        return completed

    def _append(self, values: dict[str, Any], index: int) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                _write(file, {"round": index, "completed": False, **values})

    def _save(self, values: dict[str, Any]) -> None:
        r"""Replace the stored state: keeping all states would take quadratic space."""
        if self._file is not None:
            with (
                replacing(self._file.with_suffix(_STATE)) as written,
                written.open("w", encoding="utf-8") as file,
            ):
                _write(file, values)

    def _take_up(self, folder: Path) -> None:
        r"""Resume from the rounds that earlier processes left in the folder."""
        lines = {
            (line["round"], line["completed"]): line
            for path in sorted(folder.glob(f"*{_ROUNDS}"))
            for line in _intact(path)
        }
        states = [line for path in sorted(folder.glob(f"*{_STATE}")) for line in _intact(path)]
        for saved in sorted(states, key=lambda each: each["round"]):
            first, last = self.last_round + 1, saved["round"] + 1
            new = [_completed(lines, index) for index in range(first, last)]
            if new and all(record is not None for record in new):
                self._completed += [record for record in new if record is not None]
                self.last_round, self.state = saved["round"], saved["state"]
                self.kind = saved["kind"]
        if (line := lines.get((self.last_round + 1, False))) is not None:
            self.pending = _pending(line)


def _pending(line: dict[str, Any]) -> Outcomes:
    return Outcomes(
        line["round"], tuple(line["seconds"]), *(_decoded(line, name) for name in _OUTCOMES)
    )


def _told(
    outcomes: Outcomes, seconds: float, recommendation: Tensor, value: Tensor | None
) -> RoundRecord:
    took = (*outcomes.seconds, seconds)
    given = outcomes.X, outcomes.Y, outcomes.objective
    return RoundRecord(outcomes.index, took, *given, recommendation, value)


def _completed(lines: dict[tuple[int, bool], dict[str, Any]], index: int) -> RoundRecord | None:
    outcomes, result = lines.get((index, False)), lines.get((index, True))
    if outcomes is None or result is None:
        return None
    made = (_decoded(result, name) for name in _COMPLETED)
    return _told(_pending(outcomes), result["seconds"], *made)


def _encoded(record: Outcomes | RoundRecord, names: tuple[str, ...]) -> dict[str, Any]:
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
    r"""Read the lines of a file up to the first damaged one."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, text = line.partition(" ")
        if digest != checksum(text).hex():
            return
        yield json.loads(text)
