r"""Bookkeeping that every strategy shares: the initial design, the data, the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.seeding import as_seeds
from botorch_risk.strategies.initial_design import initial_design

# How far outside the bounds a point may be by rounding, in units of their range.
_ROUNDING = 1e-6


class ReplicatedStrategy(ABC):
    r"""A strategy whose proposals are a function of its seeds and its data alone.

    All replicates advance together. Data are kept as they are told; NaN marks what is
    missing: a repeat that failed, or in `X` a replicate that took no part in a round.
    A subclass defines `_propose` and `recommend`.
    """

    def __init__(
        self,
        bounds: Tensor,
        seeds: int | Sequence[int],
        num_initial: int = 10,
        batch_size: int = 1,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            num_initial: The number of points of the initial design, which depends on the
                seed alone: strategies with the same seeds are paired.
            batch_size: The number `q` of points of each later round.

        Raises:
            BotorchTensorDimensionError: If `bounds` is not `2 x d`.
            ValueError: If the bounds are reversed or not finite, a number is below 1, or a
                seed repeats.
        """
        if bounds.ndim != 2 or bounds.shape[0] != 2 or bounds.shape[1] < 1:
            raise BotorchTensorDimensionError(
                f"Expected `bounds` to have shape `2 x d`, d >= 1. Got {bounds.shape=}."
            )
        if not (bounds.isfinite().all() and (bounds[0] < bounds[1]).all()):
            raise ValueError(
                "Expected finite `bounds` with each lower bound below its upper bound. "
                f"Got {bounds.tolist()}."
            )
        if min(num_initial, batch_size) < 1:
            raise ValueError(
                "Expected `num_initial` and `batch_size` to be at least 1. "
                f"Got {num_initial=}, {batch_size=}."
            )
        self.bounds = as_data(bounds)
        self._seeds = as_seeds(seeds)
        self.num_initial = num_initial
        self.batch_size = batch_size
        self._X = self.bounds.new_empty(len(self._seeds), 0, self._num_inputs)  # R x n x d
        self._Y: Tensor | None = None  # R x n x k
        self._round = 0
        self._proposal: Tensor | None = None

    @property
    def seeds(self) -> list[int]:
        r"""The seeds, one per replicate."""
        return self._seeds

    @property
    def _num_inputs(self) -> int:
        r"""How many columns the told points have."""
        return self.bounds.shape[-1]

    def ask(self) -> Tensor:
        r"""The initial design, then `batch_size` points a round, `R x q x d`."""
        if self._round == 0:
            return initial_design(self.bounds, self.seeds, self.num_initial)
        if self._proposal is None:
            self._proposal = self._propose()
        return self._proposal.clone()

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes; nothing is changed if they are refused.

        Args:
            X: The evaluated points, `R x q x d`; NaN in a replicate that took no part.
            Y: Their repeats, `R x q x k`. NaN marks a missing repeat.

        Raises:
            BotorchTensorDimensionError: If there is no point, or the shapes do not fit each
                other, the bounds, the seeds or the repeats told before.
            InputDataError: If a value is infinite, a point is outside the bounds, or an outcome
                comes without its point.
        """
        self._validate(X, Y)
        X, Y = as_data(X).to(self.bounds), as_data(Y).to(self.bounds)
        self._X = torch.cat([self._X, X], dim=-2)
        self._Y = Y if self._Y is None else torch.cat([self._Y, Y], dim=-2)
        self._round += 1
        self._proposal = None

    def state_dict(self) -> dict[str, Any]:
        r"""The data and the number of rounds."""
        return {"seeds": self.seeds, "round": self._round, "X": self._X, "Y": self._Y}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments.

        Raises:
            ValueError: If the state is that of other seeds.
        """
        if list(state["seeds"]) != self.seeds:
            raise ValueError(
                f"Expected the state of seeds {self.seeds}. Got seeds={state['seeds']}."
            )
        self._round = state["round"]
        self._X = state["X"].to(self.bounds)
        self._Y = None if state["Y"] is None else state["Y"].to(self.bounds)
        self._proposal = None

    def _validate(self, X: Tensor, Y: Tensor) -> None:
        r"""Raises if `tell` cannot take these outcomes."""
        expected = (len(self.seeds), self._num_inputs)
        num_repeats = Y.shape[-1] if self._Y is None else self._Y.shape[-1]
        fits = X.dim() == 3 and (X.shape[0], X.shape[-1]) == expected and X.shape[1] > 0
        if not fits or Y.shape != (*X.shape[:-1], num_repeats):
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `{expected[0]} x q x {expected[1]}` and `Y` "
                f"`{expected[0]} x q x {num_repeats}`, q >= 1. Got {X.shape=}, {Y.shape=}."
            )
        if X.isinf().any() or Y.isinf().any():
            raise InputDataError("Expected finite `X` and `Y`, NaN where missing. Got infinity.")
        if (X.isnan().any(dim=-1) & Y.isfinite().any(dim=-1)).any():
            raise InputDataError("Expected the point of every outcome. Got an outcome at NaN.")
        self._check_points(as_data(X).to(self.bounds))

    def _check_points(self, X: Tensor) -> None:
        r"""Raises if a decision, the first columns of the told rows, is outside the bounds."""
        lower, upper = self.bounds
        decisions, slack = X[..., : len(lower)], _ROUNDING * (upper - lower)
        outside = (decisions < lower - slack) | (decisions > upper + slack)
        if outside.any():
            row = decisions[outside.any(dim=-1)][0].tolist()
            raise InputDataError(
                f"Expected points within bounds={self.bounds.tolist()}. Got {row}."
            )

    def _observed(self) -> tuple[Tensor, Tensor]:
        r"""The data so far, `R x n x d` and `R x n x k`."""
        if self._Y is None:
            raise ValueError(f"Expected outcomes before a recommendation. Got {self._round=}.")
        return self._X, self._Y

    def _missing(self) -> Tensor:
        r"""Which rows have no outcome, `R x n`."""
        return self._observed()[1].isnan().all(dim=-1)

    def _complete(self) -> tuple[Tensor, Tensor]:
        r"""The data, rows without an outcome replaced by the first row that has one.

        Raises:
            InputDataError: If a replicate has no outcome at all.
        """
        X, Y = self._observed()
        missing = self._missing()
        if (empty := missing.all(dim=-1)).any():
            names = [seed for seed, none in zip(self.seeds, empty.tolist(), strict=True) if none]
            raise InputDataError(
                f"Expected an outcome in every replicate. Got none so far for seeds={names}."
            )
        return fill_rows(X, missing), fill_rows(Y, missing)

    @abstractmethod
    def _propose(self) -> Tensor:
        r"""The points of a round after the first, `R x batch_size x d`."""

    @abstractmethod
    def recommend(self) -> Tensor:
        r"""The point of each replicate to hand over if the experiment ended now, `R x d`."""


def as_data(values: Tensor) -> Tensor:
    r"""A copy of what a user passes, without its graph, integers as floating-point numbers."""
    return values.detach().clone() if values.is_floating_point() else values.double()


def fill_rows(rows: Tensor, missing: Tensor) -> Tensor:
    r"""Rows `R x n x d`, the missing ones replaced by the first of their replicate that is not."""
    index = torch.arange(rows.shape[-2], device=rows.device).expand(missing.shape)
    index = index.where(~missing, missing.to(torch.uint8).argmin(dim=-1, keepdim=True))
    return rows.gather(-2, index.unsqueeze(-1).expand(rows.shape))
