r"""The record of a loop's points and outcomes."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import as_data
from botorch_risk.seeding import streams


@dataclass(frozen=True)
class History:
    r"""All rows of `R` replicates, in the order of their evaluation; immutable.

    Args:
        seeds: One seed per replicate.
        num_initial: The number of rows of the initial design, which is round 0.
        X: The rows, `R x n x d`; NaN where a replicate took no part.
        Y: The outcomes, `R x n x k x m`; NaN marks a missing repeat.
        rounds: The round of each row, `n`.
        recorded: The method's record of each row, `R x n`; NaN if there is none.
        running: Rows that were proposed and are not told yet, `R x p x d_asked`, padded with NaN.

    Example:
        >>> from botorch_risk.strategies import random_search
        >>> strategy = random_search(torch.tensor([[0.0], [1.0]]), seeds=[0, 1], num_initial=3)
        >>> Y = torch.tensor([[4.0, 5.0, 6.0], [1.0, torch.nan, 3.0]])  # R x n
        >>> strategy.tell(strategy.ask(), Y.unsqueeze(-1))
        >>> history = strategy.history
        >>> history.mean, history.round
        (tensor([[4., 5., 6.],
                [1., nan, 3.]]), 1)
    """

    seeds: tuple[int, ...]
    num_initial: int
    X: Tensor
    Y: Tensor
    rounds: Tensor
    recorded: Tensor
    running: Tensor

    @classmethod
    def empty(
        cls,
        seeds: Sequence[int],
        num_initial: int,
        num_columns: int,
        like: Tensor,
        num_outcomes: int = 1,
        num_asked: int | None = None,
    ) -> History:
        r"""An empty history in the dtype and on the device of a tensor.

        `num_asked` is the number of columns of a proposed row, if it differs from `num_columns`.
        """
        num_replicates = len(seeds)
        return cls(
            tuple(seeds),
            num_initial,
            like.new_empty(num_replicates, 0, num_columns),
            like.new_empty(num_replicates, 0, 0, num_outcomes),
            torch.zeros(0, dtype=torch.long),
            like.new_empty(num_replicates, 0),
            like.new_empty(num_replicates, 0, num_columns if num_asked is None else num_asked),
        )

    @property
    def num_rows(self) -> int:
        r"""The number n of rows."""
        return self.X.shape[-2]

    @cached_property
    def round(self) -> int:
        r"""The number of the next round; 0 until the initial design is complete."""
        if self.num_rows < self.num_initial:
            return 0
        return int(self.rounds[-1]) + 1

    @cached_property
    def num_running(self) -> Tensor:
        r"""The number of rows of each replicate that still run, `R`."""
        return self.running.isfinite().all(dim=-1).sum(dim=-1)

    @property
    def num_outcomes(self) -> int:
        r"""The number m of outcomes."""
        return self.Y.shape[-1]

    @cached_property
    def observed(self) -> Tensor:
        r"""Which outcomes of each row were observed, `R x n x m`."""
        return self.Y.isfinite().any(dim=-2)

    @cached_property
    def has_outcome(self) -> Tensor:
        r"""Which rows have any outcome, `R x n`."""
        return self.observed.any(dim=-1)

    @cached_property
    def is_known(self) -> Tensor:
        r"""Which replicates have at least one observation of every outcome, `R`."""
        return self.observed.any(dim=-2).all(dim=-1)

    @property
    def mean(self) -> Tensor:
        r"""The mean of the repeats of the first outcome, `R x n`; NaN where there is none."""
        return self.Y[..., 0].nanmean(dim=-1)

    @property
    def num_readings(self) -> Tensor:
        r"""The number of readings of the first outcome in each row, `R x n`."""
        return self.Y[..., 0].isfinite().sum(dim=-1)

    def checked(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        r"""A user's points and outcomes, checked, as `R x q x d` and `R x q x k x m`."""
        num_replicates, m = len(self.seeds), self.num_outcomes
        X, Y = as_data(X, "X").to(self.X), as_data(Y, "Y").to(self.X)
        # One reading of each outcome needs no dimension of repeats.
        repeats = Y if Y.ndim != 3 else Y.unsqueeze(-1 if m == 1 else -2)
        fits = X.ndim == 3 and repeats.ndim == 4 and len(X) == num_replicates and X.shape[1] > 0
        fits = fits and repeats.shape[:2] == X.shape[:2] and repeats.numel() > 0
        if not fits or repeats.shape[3] != m:
            columns = "k" if m == 1 else f"{m}` or `{num_replicates} x q x k x {m}"
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `{num_replicates} x q x d` and `Y` "
                f"`{num_replicates} x q x {columns}`, q >= 1. Got {X.shape=}, {Y.shape=}."
            )
        if X.isinf().any() or Y.isinf().any():
            raise InputDataError("Expected finite `X` and `Y`, NaN where missing. Got infinity.")
        if (X.isnan().any(dim=-1) & Y.isfinite().flatten(2).any(dim=-1)).any():
            raise InputDataError("Expected a point for every outcome. Got a point of NaN.")
        return X, repeats

    def index(self, rows: Sequence[int]) -> list[int]:
        r"""The rows that a user names, as a list in which each occurs once."""
        index = list(rows)
        if len(set(index)) < len(index) or not set(index) <= set(range(self.num_rows)):
            raise ValueError(f"Expected rows below {self.num_rows}, each once. Got {index}.")
        return index

    def append(self, X: Tensor, Y: Tensor) -> History:
        r"""The history with the rows of a round, `R x q x d`, and their outcomes `R x q x k x m`.

        The number of repeats may differ from round to round; missing ones are NaN.
        """
        num_repeats = max(self.Y.shape[-2], Y.shape[-2])
        Y = torch.cat([_with_repeats(self.Y, num_repeats), _with_repeats(Y, num_repeats)], dim=1)
        nothing = X.new_full(X.shape[:-1], torch.nan)
        return replace(
            self,
            X=torch.cat([self.X, X], dim=-2),
            Y=Y,
            rounds=torch.cat([self.rounds, torch.full((X.shape[-2],), self.round)]),
            recorded=torch.cat([self.recorded, nothing], dim=-1),
        )

    def with_readings(self, rows: Sequence[int], Y: Tensor) -> History:
        r"""The history with further readings of some rows, as if they had come with the first ones.

        Args:
            rows: The rows, each once.
            Y: The readings, `R x len(rows) x k x m`; NaN marks missing readings.
        """
        index = list(rows)
        readings = torch.cat([self.Y[:, index], Y], dim=-2)
        missing = readings.isnan().all(dim=-1)
        order = missing.to(torch.uint8).argsort(dim=-1, stable=True).unsqueeze(-1)
        readings = readings.gather(-2, order.expand_as(readings))
        num_repeats = max(self.Y.shape[-2], int((~missing).sum(dim=-1).max()))
        whole = _with_repeats(self.Y, num_repeats)
        whole[:, index] = readings[..., :num_repeats, :]
        return replace(self, Y=whole)

    def with_outcomes(self, rows: Sequence[int], Y: Tensor) -> History:
        r"""The history with other readings of some rows, `R x len(rows) x k x m`."""
        num_repeats = max(self.Y.shape[-2], Y.shape[-2])
        whole = _with_repeats(self.Y, num_repeats).clone()
        whole[:, list(rows)] = _with_repeats(Y, num_repeats)
        return replace(self, Y=whole)

    def without_last_repeats(self, before: History) -> History:
        r"""The history without the last repeats that no row has any more."""
        if _num_repeats_of(before.Y) < before.Y.shape[-2]:  # they were told as missing
            return self
        return replace(self, Y=self.Y[..., : max(1, _num_repeats_of(self.Y)), :])

    def rows(self, kept: Sequence[int]) -> History:
        r"""The history of some rows alone."""
        index = list(kept)
        return replace(
            self,
            X=self.X[:, index],
            Y=self.Y[:, index],
            rounds=self.rounds[index],
            recorded=self.recorded[:, index],
        )

    def restored(
        self, rounds: Any, X: Tensor, Y: Tensor, recorded: Tensor, running: Tensor
    ) -> History:
        r"""A history of the same seeds with the rows of a state, in this one's dtype and device."""
        shapes = {"X": X.shape, "Y": Y.shape, "recorded": recorded.shape, "running": running.shape}
        num_replicates, _, num_columns = self.X.shape
        n = X.shape[-2] if X.dim() == 3 else -1
        expected = {
            "X": (num_replicates, n, num_columns),
            "Y": (num_replicates, n, *Y.shape[2:3], self.num_outcomes),
            "recorded": (num_replicates, n),
            "running": (num_replicates, *running.shape[1:2], self.running.shape[-1]),
        }
        for name, shape in shapes.items():
            if tuple(shape) != expected[name]:
                raise ValueError(
                    f"Expected {name!r} of shape {expected[name]}. Got {tuple(shape)}."
                )
        if not self._may_have_rounds(rounds, n):
            raise ValueError(
                f"Expected the 'rounds' of {n} rows, 0 for at least the first {self.num_initial}, "
                f"then without a gap. Got {reprlib.repr(rounds)}."
            )
        return replace(
            self,
            X=X.to(self.X),
            Y=Y.to(self.Y),
            rounds=torch.tensor(rounds, dtype=torch.long),
            recorded=recorded.to(self.recorded),
            running=running.to(self.running),
        )

    def _may_have_rounds(self, rounds: Any, num_rows: int) -> bool:
        if not isinstance(rounds, list) or len(rounds) != num_rows:
            return False
        return all(
            type(now) is int and now - before in (0, 1) and (now == 0 or row >= self.num_initial)
            for row, (before, now) in enumerate(zip([0, *rounds], rounds, strict=False))
        )

    def of(self, replicates: Sequence[int]) -> History:
        r"""The history of some replicates."""
        index = list(replicates)
        if is_everyone(index, len(self.seeds)):
            return replace(self, running=_without_padding(self.running))
        return replace(
            self,
            seeds=tuple(self.seeds[replicate] for replicate in index),
            X=self.X[index],
            Y=self.Y[index],
            recorded=self.recorded[index],
            running=_without_padding(self.running[index]),
        )

    def of_outcome(self, outcome: int) -> History:
        r"""The history of one outcome alone."""
        return replace(self, Y=self.Y[..., outcome : outcome + 1])

    def before(self, round: int) -> History:
        r"""The history before a round."""
        return self.rows((self.rounds < round).nonzero().flatten().tolist())

    def complete(self) -> tuple[Tensor, Tensor]:
        r"""The rows that have an outcome, `R x n' x d`, and their outcomes `R x n' x k`.

        Raises:
            ValueError: If their number differs between replicates.
        """
        both = rows_where(torch.cat([self.X, self.Y[..., 0]], dim=-1), self.has_outcome)
        return both[..., : self.X.shape[-1]], both[..., self.X.shape[-1] :]

    def means_of(self, outcome: int) -> tuple[Tensor, Tensor]:
        r"""The rows in which one outcome was observed, `R x n' x d`, and its means `R x n' x 1`."""
        Y = self.Y[..., outcome].nanmean(dim=-1, keepdim=True)
        both = rows_where(torch.cat([self.X, Y], dim=-1), self.observed[..., outcome])
        return both[..., :-1], both[..., -1:]

    def streams(self, purpose: str, *more: int) -> list[int]:
        r"""A seed per replicate for a draw in the next round."""
        return streams(self.seeds, purpose, self.round, *more)


def is_everyone(replicates: list[int], num_replicates: int) -> bool:
    r"""Whether these are all replicates in order, so that no copy of their parts is needed."""
    return replicates == list(range(num_replicates))


def rows_where(rows: Tensor, chosen: Tensor) -> Tensor:
    r"""The chosen rows `R x n'` x ... of `R x n` x ..., the same number for each replicate."""
    counts = chosen.sum(dim=-1).tolist()
    if len(set(counts)) > 1:
        raise ValueError(f"Expected equally many rows in every replicate. Got {counts}.")
    if counts[0] == chosen.shape[-1]:
        return rows
    # In their order, by an index: a mask would make the host wait once more.
    index = chosen.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, : counts[0]]
    return rows[torch.arange(len(rows), device=rows.device).unsqueeze(-1), index]


def _without_padding(running: Tensor) -> Tensor:
    r"""Running rows without those that are NaN in every replicate."""
    return (
        running[:, : int(running.isfinite().all(dim=-1).sum(dim=-1).max())]
        if running.numel()
        else running
    )


def _num_repeats_of(Y: Tensor) -> int:
    r"""The number of repeats up to the last one that is not missing everywhere."""
    taken = Y.isfinite().flatten(0, 1).any(dim=0).any(dim=-1).nonzero()
    return int(taken[-1]) + 1 if len(taken) else 0


def _with_repeats(Y: Tensor, num_repeats: int) -> Tensor:
    r"""Outcomes `R x n x k x m`, padded with NaN to more repeats."""
    missing = Y.new_full((*Y.shape[:-2], num_repeats - Y.shape[-2], Y.shape[-1]), torch.nan)
    return torch.cat([Y, missing], dim=-2)


class ReplicateWithoutOutcomesWarning(RuntimeWarning):
    r"""Some outcome of a replicate has no reading, so that NaN is recommended for the replicate."""


def warn_of_replicates_without_outcomes(history: History) -> None:
    r"""Name the seeds of replicates for which NaN is recommended."""
    pairs = zip(history.seeds, history.is_known.tolist(), strict=True)
    if without := [seed for seed, is_known in pairs if not is_known]:
        warnings.warn(
            "Expected every outcome in every replicate. "
            f"Got an outcome without readings for seeds={without}, whose recommendation is NaN.",
            ReplicateWithoutOutcomesWarning,
            stacklevel=3,
        )
