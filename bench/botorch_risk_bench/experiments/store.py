r"""One SQLite file for one experiment: each round is on disk before the next begins.

A round is committed twice: its outcomes as soon as they are evaluated, and then, in one
transaction, the recommendation and the strategy's state after `tell`. A run that
is killed in between finds the outcomes again and does not pay for them twice. The tables are

    identity    what experiment this is: one JSON value for each key
    strategies  one row each: its kind, its last completed round, its state then
    rounds      one row for each strategy and round; round 0 is the initial design

Tensors are kept without loss, as the bytes of `torch.save`, and are read back with
`weights_only=True`: a file from elsewhere cannot run code. Each row has a checksum of all its
columns, which is compared whenever the row is read, and rounds have no gaps: what is read is what
was recorded, or a `StoreError` names the row that is not. Stores from before there were checksums
are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from botorch_risk.strategies.arguments import as_today
from botorch_risk_bench.experiments.claims import claim
from botorch_risk_bench.experiments.database import (
    check_row,
    clear_errors,
    open_database,
    read_identity,
    transaction,
)
from botorch_risk_bench.experiments.records import COLUMNS, RoundRecord, check_shapes, name_of
from botorch_risk_bench.experiments.serialization import StoreError, checksum, decode, encode

WAIT_SECONDS = 10.0  # for another process to end


class ExperimentStore:
    r"""The rounds of one experiment in a SQLite file; a context manager.

    Any number of processes may read, and run different strategies; `claim` keeps a second one from
    running the same. Each round can be recorded only once: the second writer gets a `StoreError`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with ExperimentStore(f"{folder}/sine.sqlite", {"experiment": "sine"}) as store:
        ...         store.add_strategy("random", kind="RandomSearch")
        ...         store.identity, store.progress("random")
        ({'experiment': 'sine'}, (-1, None))
    """

    def __init__(self, path: str | Path, identity: Mapping[str, Any] | None = None) -> None:
        r"""Opens the store.

        Args:
            path: The file.
            identity: JSON values that tell this experiment from any other. If given, a
                missing file is created and an existing one has to be of this experiment;
                if not, the file has to be there.

        Raises:
            StoreError: If the file is missing, corrupt, locked, not a store, or a store of
                another experiment. Nothing has been changed then.
        """
        self.path = Path(path)
        self._connection = open_database(self.path, identity)

    def __enter__(self) -> ExperimentStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def claim(self, label: str, wait_seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        r"""Keeps other processes from running a strategy for as long as the context lasts.

        The claim ends with the process, however that ends: a run that is started in the moment
        when another is killed waits for the workers of that, which end within a second.

        Args:
            label: The strategy.
            wait_seconds: How long to wait for another process that runs it.

        Raises:
            StoreError: If another process still runs it then; the error names it.
        """
        return claim(self.path, label, wait_seconds)

    @property
    def identity(self) -> dict[str, Any]:
        r"""What distinguishes this experiment from any other.

        Raises:
            StoreError: If it has been changed since the store was created.
        """
        with clear_errors(self.path):
            return read_identity(self._connection, self.path)

    def labels(self) -> list[str]:
        r"""The strategies that have been added, in the order of their addition.

        Raises:
            StoreError: If there are rounds of a strategy that is not listed.
        """
        with clear_errors(self.path):
            rows = self._connection.execute("SELECT label FROM strategies ORDER BY rowid")
            labels = [label for (label,) in rows]
            played = self._connection.execute("SELECT DISTINCT label FROM rounds").fetchall()
        for (label,) in played:
            if label not in labels:
                raise StoreError(
                    f"Expected strategy {label!r} of the rounds in {self.path} to be listed. "
                    f"Got {labels}."
                )
        return labels

    def add_strategy(self, label: str, kind: str) -> None:
        r"""Adds a strategy, or checks that the one of this label is of this kind.

        Raises:
            StoreError: If the label belongs to another kind of strategy.
        """
        with transaction(self._connection, self.path):
            known = self._strategy(label)
            if known is None:
                row = label, kind, -1, None
                self._connection.execute(
                    "INSERT INTO strategies (label, kind, round, state, checksum) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (*row, checksum(*row)),
                )
            elif as_today(known[1]) != kind:
                raise StoreError(
                    f"Expected strategy {label!r} of {self.path} to be a {known[1]}. Got {kind=}."
                )

    def progress(self, label: str) -> tuple[int, dict[str, Any] | None]:
        r"""The last round that a strategy has completed, -1 before any, and its state then.

        Raises:
            StoreError: If the state is not the one that was recorded.
        """
        with clear_errors(self.path):
            row = self._strategy(label)
        return (-1, None) if row is None else (row[2], decode(row[3]))

    def rounds(self, label: str, first: int = 0) -> list[RoundRecord]:
        r"""The recorded rounds of a strategy from `first` on; the last may be pending.

        Raises:
            StoreError: If a round is missing, or is not the one that was recorded.
        """
        with clear_errors(self.path):
            strategy = self._strategy(label)  # first, as others may go on writing
            rows = self._connection.execute(
                f"SELECT {COLUMNS}, checksum FROM rounds WHERE label = ? AND round >= ? "
                "ORDER BY round",
                (label, first),
            ).fetchall()
        last = -1 if strategy is None else strategy[2]
        found = [row[1] for row in rows] + [None] * (last + 1 - first - len(rows))
        for index, got in enumerate(found, first):
            if index != got:
                missing = "no such round" if got is None else f"round {got} in its place"
                raise StoreError(
                    f"Expected round {index} of {label!r} in {self.path}. Got {missing}."
                )
        return [
            RoundRecord.read(row, self.path, completed=row[1] <= last or row is not rows[-1])
            for row in rows
        ]

    def record_outcomes(
        self,
        label: str,
        index: int,
        X: Tensor,
        Y: Tensor,
        objective: Tensor | None,
        seconds: tuple[float, float],
    ) -> None:
        r"""Commits the outcomes of a round, before `tell`.

        Args:
            label: The strategy.
            index: The number of the round.
            X: The evaluated points, `R x q x d`.
            Y: Their repeats, `R x q x k`, or `R x q x k x m` of several outcomes.
            objective: The true risk objective at `X`, `R x q`, if known.
            seconds: The time that asking and evaluating took.

        Raises:
            StoreError: If the shapes do not fit each other, or another process has recorded
                this round.
        """
        check_shapes(name_of(label, index), self.path, X, Y, objective)
        blobs = encode(X), encode(Y), None if objective is None else encode(objective)
        row = label, index, *blobs, None, None, *map(float, seconds), None
        with transaction(self._connection, self.path):
            self._connection.execute(
                f"INSERT INTO rounds ({COLUMNS}, checksum) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, checksum(*row)),
            )

    def record_tell(
        self,
        label: str,
        index: int,
        recommendation: Tensor,
        recommended_objective: Tensor | None,
        state: dict[str, Any],
        seconds: float,
    ) -> None:
        r"""Commits what a strategy made of a round, and its state.

        Args:
            label: The strategy.
            index: The number of the round.
            recommendation: The recommended points, `R x d`, or sets of them, `R x p x d`.
            recommended_objective: The true risk objective there, `R`, if known.
            state: The strategy's `state_dict()` after `tell`.
            seconds: The time that telling and recommending took.

        Raises:
            StoreError: If the state could not be read back, or if another process has
                recorded this round.
        """
        blob = encode(state)
        decode(blob)  # A state that cannot be read back must not replace one that can.
        known = None if recommended_objective is None else encode(recommended_objective)
        with transaction(self._connection, self.path):
            pending = self._connection.execute(
                f"SELECT {COLUMNS}, checksum FROM rounds WHERE label = ? AND round = ?",
                (label, index),
            ).fetchone()
            strategy = self._strategy(label)
            if pending is None or strategy is None or pending[5] is not None:
                raise StoreError(
                    f"Expected round {index} of {label!r} in {self.path} to be pending. Got one "
                    "that another process has completed."
                )
            check_row(name_of(label, index), self.path, pending[:-1], pending[-1])
            result = encode(recommendation), known
            row = *pending[:5], *result, *pending[7:9], float(seconds)
            self._connection.execute(
                "UPDATE rounds SET recommendation = ?, recommended_objective = ?, "
                "tell_seconds = ?, checksum = ? WHERE label = ? AND round = ?",
                (*result, row[-1], checksum(*row), label, index),
            )
            self._connection.execute(
                "UPDATE strategies SET round = ?, state = ?, checksum = ? WHERE label = ?",
                (index, blob, checksum(label, strategy[1], index, blob), label),
            )

    def _strategy(self, label: str) -> tuple[str, str, int, bytes | None] | None:
        r"""The row of a strategy, intact; None if there is none."""
        row = self._connection.execute(
            "SELECT label, kind, round, state, checksum FROM strategies WHERE label = ?", (label,)
        ).fetchone()
        if row is None:
            return None
        check_row(f"the state of {label!r}", self.path, row[:-1], row[-1])
        return row[:-1]
