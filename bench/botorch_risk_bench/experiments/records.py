r"""One round of one strategy, as a row of the store and as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from botorch_risk_bench.experiments.database import check_row
from botorch_risk_bench.experiments.serialization import StoreError, decode

COLUMNS = (
    "label, round, X, Y, objective, recommendation, recommended_objective, "
    "ask_seconds, evaluate_seconds, tell_seconds"
)


@dataclass(frozen=True)
class RoundRecord:
    r"""One round of one strategy; what `tell` adds is None while it is pending.

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
    seconds: tuple[float, float, float | None]
    X: Tensor
    Y: Tensor
    objective: Tensor | None
    recommendation: Tensor | None
    recommended_objective: Tensor | None

    @classmethod
    def read(cls, row: Sequence[Any], path: Path, completed: bool) -> RoundRecord:
        r"""The record of a row of the table.

        Args:
            row: The values of `COLUMNS` and their checksum.
            path: The file that it is from.
            completed: Whether the strategy has gone on from it, so that it has to be complete.

        Raises:
            StoreError: If the row is not the one that was recorded.
        """
        *values, stored = row
        label, index, *blobs = values[:7]
        check_row(name_of(label, index), path, values, stored)
        X, Y, objective, recommendation, recommended = map(decode, blobs)
        if completed and recommendation is None:
            raise StoreError(
                f"Expected {name_of(label, index)} in {path} to be completed, as the strategy has "
                "gone on. Got one without a recommendation."
            )
        check_shapes(name_of(label, index), path, X, Y, objective)
        ask, evaluate, tell = values[7:]
        return cls(index, (ask, evaluate, tell), X, Y, objective, recommendation, recommended)


class Records(Protocol):
    r"""The recorded rounds of one experiment, for tables and pictures."""

    @property
    def path(self) -> Path:
        r"""The file that they are in."""
        ...

    @property
    def identity(self) -> dict[str, Any]:
        r"""What distinguishes the experiment from any other, as JSON values."""
        ...

    def labels(self) -> list[str]:
        r"""The strategies that have been run."""
        ...

    def rounds(self, label: str, first: int = 0) -> list[RoundRecord]:
        r"""The rounds of a strategy from `first` on."""
        ...


class RoundLog(Protocol):
    r"""Where the rounds of a strategy are recorded while it runs."""

    def add_strategy(self, label: str, kind: str) -> None:
        r"""Adds a strategy, or checks that the one of this label is of this kind."""
        ...

    def progress(self, label: str) -> tuple[int, dict[str, Any] | None]:
        r"""The last round that has been completed, -1 before any, and the state then."""
        ...

    def rounds(self, label: str, first: int = 0) -> list[RoundRecord]:
        r"""The rounds from `first` on; the last may be pending."""
        ...

    def record_outcomes(
        self,
        label: str,
        index: int,
        X: Tensor,
        Y: Tensor,
        objective: Tensor | None,
        seconds: tuple[float, float],
    ) -> None:
        r"""Records the outcomes of a round before they are passed to the strategy."""
        ...

    def record_tell(
        self,
        label: str,
        index: int,
        recommendation: Tensor,
        recommended_objective: Tensor | None,
        state: dict[str, Any],
        seconds: float,
    ) -> None:
        r"""Records what the strategy made of a round, and its state."""
        ...


def name_of(label: str, index: int) -> str:
    r"""What a round is called in an error."""
    return f"round {index} of {label!r}"


def check_shapes(name: str, path: Path, X: Any, Y: Any, objective: Any) -> None:
    r"""Raises a StoreError unless these are the outcomes of one round."""
    given = [each for each in (X, Y, objective) if each is not None]
    fits = all(isinstance(each, Tensor) for each in given) and X.ndim == 3 and Y.ndim in (3, 4)
    if not fits or any(each.shape[:2] != X.shape[:2] for each in given):
        shapes = [tuple(each.shape) for each in given if isinstance(each, Tensor)]
        raise StoreError(
            f"Expected {name} in {path} to have `X: R x q x d`, `Y: R x q x k (x m)` and "
            f"`objective: R x q`. Got the shapes {shapes}."
        )
