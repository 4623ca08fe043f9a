r"""One SQLite file for one experiment: each round is on disk before the next begins.

A round is committed twice: its outcomes as soon as they are evaluated, and then, in one
transaction, the recommendation and the strategy's state after `tell`. Whoever is killed
in between finds the outcomes again and does not pay for them twice. The tables are

    identity    what experiment this is: one JSON value for each key
    strategies  one row each: its kind, the last round that it was told, its state then
    rounds      one row for each strategy and round; round 0 is the initial design

Tensors are kept without loss, as the bytes of `torch.save`, and are read back with
`weights_only=True`: a file from elsewhere cannot run code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from botorch_risk.experiments.database import (
    clear_errors,
    open_database,
    read_identity,
    transaction,
)
from botorch_risk.experiments.serialization import StoreError, decode, encode


@dataclass(frozen=True)
class RoundRecord:
    r"""One round of one strategy; what `tell` adds is None while it is pending.

    Args:
        index: The number of the round; 0 is the initial design.
        seconds: The time that asking, evaluating and telling took.
        X: The evaluated points, `R x q x d`.
        Y: Their repeats, `R x q x k`, NaN where one failed.
        objective: The true risk objective at `X`, `R x q`, if the problem knows it.
        recommendation: The recommended points after this round, `R x d`.
        recommended_objective: The true risk objective there, `R`.
    """

    index: int
    seconds: tuple[float, float, float | None]
    X: Tensor
    Y: Tensor
    objective: Tensor | None
    recommendation: Tensor | None
    recommended_objective: Tensor | None


class ExperimentStore:
    r"""The rounds of one experiment in a SQLite file; a context manager.

    Any number of processes may read and write: each round can be recorded only once, and
    who comes second gets a `StoreError`.

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
            StoreError: If the file is missing, corrupt, locked, not a store, or that of
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
        r"""Closes the file."""
        self._connection.close()

    @property
    def identity(self) -> dict[str, Any]:
        r"""What tells this experiment from any other."""
        with clear_errors(self.path):
            return read_identity(self._connection)

    def labels(self) -> list[str]:
        r"""The strategies that have been added, in the order of their addition."""
        with clear_errors(self.path):
            rows = self._connection.execute("SELECT label FROM strategies ORDER BY rowid")
            return [label for (label,) in rows]

    def add_strategy(self, label: str, kind: str) -> None:
        r"""Adds a strategy, or checks that the one of this label is of this kind.

        Raises:
            StoreError: If the label belongs to another kind of strategy.
        """
        with transaction(self._connection, self.path):
            self._connection.execute(
                "INSERT OR IGNORE INTO strategies (label, kind) VALUES (?, ?)", (label, kind)
            )
            stored = self._connection.execute(
                "SELECT kind FROM strategies WHERE label = ?", (label,)
            ).fetchone()[0]
            if stored != kind:
                raise StoreError(
                    f"Expected strategy {label!r} of {self.path} to be a {stored}. Got {kind=}."
                )

    def progress(self, label: str) -> tuple[int, dict[str, Any] | None]:
        r"""The last round that a strategy was told, -1 before any, and its state then."""
        with clear_errors(self.path):
            row = self._connection.execute(
                "SELECT round, state FROM strategies WHERE label = ?", (label,)
            ).fetchone()
        return (-1, None) if row is None else (row[0], decode(row[1]))

    def rounds(self, label: str, first: int = 0) -> list[RoundRecord]:
        r"""The recorded rounds of a strategy from `first` on; the last may be pending."""
        with clear_errors(self.path):
            rows = self._connection.execute(
                "SELECT round, ask_seconds, evaluate_seconds, tell_seconds, "
                "X, Y, objective, recommendation, recommended_objective FROM rounds "
                "WHERE label = ? AND round >= ? ORDER BY round",
                (label, first),
            ).fetchall()
        return [RoundRecord(row[0], row[1:4], *map(decode, row[4:])) for row in rows]

    def record_outcomes(
        self,
        label: str,
        index: int,
        X: Tensor,
        Y: Tensor,
        objective: Tensor | None,
        seconds: tuple[float, float],
    ) -> None:
        r"""Commits the outcomes of a round, before the strategy is told.

        Args:
            label: The strategy.
            index: The number of the round.
            X: The evaluated points, `R x q x d`.
            Y: Their repeats, `R x q x k`.
            objective: The true risk objective at `X`, `R x q`, if known.
            seconds: The time that asking and evaluating took.

        Raises:
            StoreError: If another process has recorded this round.
        """
        blobs = encode(X), encode(Y), None if objective is None else encode(objective)
        with transaction(self._connection, self.path):
            self._connection.execute(
                "INSERT INTO rounds (label, round, X, Y, objective, ask_seconds, "
                "evaluate_seconds) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (label, index, *blobs, *seconds),
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
            recommendation: The recommended points, `R x d`.
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
            updated = self._connection.execute(
                "UPDATE rounds SET recommendation = ?, recommended_objective = ?, "
                "tell_seconds = ? WHERE label = ? AND round = ? AND recommendation IS NULL",
                (encode(recommendation), known, seconds, label, index),
            ).rowcount
            if updated != 1:
                raise StoreError(
                    f"Expected round {index} of {label!r} in {self.path} to be pending. Got one "
                    "that another process has completed."
                )
            self._connection.execute(
                "UPDATE strategies SET round = ?, state = ? WHERE label = ?", (index, blob, label)
            )
