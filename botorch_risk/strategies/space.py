r"""What a point is: the box or the finite domain of decisions, and the columns beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
)
from torch import Tensor

from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.optim.pointwise import PointwiseAcquisition
from botorch_risk.strategies.initial_design import initial_design

# How far outside the bounds a point may be by rounding, in units of their range.
_ROUNDING = 1e-6


class Space(Protocol):
    r"""What a strategy asks of a space.

    A row of the history is what was asked for and what was observed with it: the decision in the
    first columns, then whatever the space adds. Decisions are in the units of `bounds`.
    """

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decisions, `2 x d`."""
        ...

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        ...

    def of(self, replicates: Sequence[int]) -> Space:
        r"""The space of some replicates."""
        ...

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""The initial design as asked rows, `R x num_points x d_asked`."""
        ...

    def shown(self, asked: Tensor) -> Tensor:
        r"""What the user evaluates of asked rows."""
        ...

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Rows of the history `R x q x num_columns` of what the user observed.

        Args:
            X: The evaluated points, `R x q x d_told`; NaN where a replicate took no part.
            asked: Returns the rows that were asked for; to choose them takes time.

        Raises:
            BotorchTensorDimensionError: If `X` has other columns.
            InputDataError: If a point is outside the space.
        """
        ...


@dataclass(frozen=True)
class Box:
    r"""Decisions in a box.

    Args:
        bounds: The lower and the upper bounds, `2 x d`.

    Raises:
        BotorchTensorDimensionError: If `bounds` is not `2 x d`.
        ValueError: If the bounds are reversed or not finite.

    Example:
        >>> Box(torch.tensor([[0.0], [2.0]])).initial([0, 1], 5).shape
        torch.Size([2, 5, 1])
    """

    bounds: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_box("bounds", self.bounds))

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        return self.bounds.shape[-1]

    def of(self, replicates: Sequence[int]) -> Box:
        r"""The same space: replicates share it."""
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Scrambled Sobol points, a function of each seed alone."""
        return initial_design(self.bounds, seeds, num_points)

    def shown(self, asked: Tensor) -> Tensor:
        r"""The decisions."""
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""The decisions, within the bounds up to rounding."""
        check_columns(X, self.num_columns)
        check_within(X, self.bounds)
        return X

    def unit(self, X: Tensor) -> Tensor:
        r"""Decisions on the unit cube."""
        lower, upper = self.bounds
        return (X - lower) / (upper - lower)

    def maximize(
        self,
        acquisition: PointwiseAcquisition,
        seeds: Sequence[int],
        q: int,
        num_restarts: int,
        raw_samples: int,
    ) -> Tensor:
        r"""Where an acquisition function on the unit cube is largest, `R x q x d` decisions."""
        X, _ = optimize_acqf_replicates(
            acquisition,
            unit_cube(self.bounds),
            q=q,
            seeds=list(seeds),
            num_restarts=num_restarts,
            raw_samples=raw_samples,
        )
        return self.from_unit(X)

    def from_unit(self, X: Tensor) -> Tensor:
        r"""Points of the unit cube as decisions, within the bounds in spite of rounding."""
        lower, upper = self.bounds
        return (lower + (upper - lower) * X).clamp(lower, upper)


@dataclass(frozen=True)
class ContextSpace:
    r"""Decisions in a box; a context is observed with each outcome and cannot be chosen.

    A row is a decision with its context in the last columns.

    Args:
        box: The decisions.
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        may_leave: Whether contexts outside their bounds are accepted.
    """

    box: Box
    context_bounds: Tensor
    may_leave: bool = False

    def __post_init__(self) -> None:
        bounds = as_box("context_bounds", self.context_bounds).to(self.box.bounds)
        object.__setattr__(self, "context_bounds", bounds)

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decisions, `2 x d_x`."""
        return self.box.bounds

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        return self.bounds.shape[-1] + self.context_bounds.shape[-1]

    def of(self, replicates: Sequence[int]) -> ContextSpace:
        r"""The same space: replicates share it."""
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""The initial decisions."""
        return self.box.initial(seeds, num_points)

    def shown(self, asked: Tensor) -> Tensor:
        r"""The decisions."""
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Decisions with the contexts that were observed."""
        check_columns(X, self.num_columns)
        check_within(X, self.bounds)
        contexts = X[..., self.bounds.shape[-1] :]
        outside = (contexts < self.context_bounds[0]) | (contexts > self.context_bounds[1])
        if outside.any() and not self.may_leave:
            raise InputDataError(
                "Expected contexts within `context_bounds`, or density_options={'at_bounds': "
                f"'clip'}}. Got {contexts[outside][0].item()}, {self.context_bounds.tolist()=}."
            )
        return X

    def unit(self, X: Tensor) -> Tensor:
        r"""Rows on the unit cube."""
        lower, upper = torch.cat([self.bounds, self.context_bounds], dim=-1)
        return (X - lower) / (upper - lower)


def as_data(values: Tensor) -> Tensor:
    r"""A copy of what a user passes, without its graph, integers as floating-point numbers."""
    return values.detach().clone() if values.is_floating_point() else values.double()


def as_box(name: str, bounds: Tensor) -> Tensor:
    r"""A copy of a box that a user passes.

    Raises:
        BotorchTensorDimensionError: If it is not `2 x d`.
        ValueError: If it is reversed or not finite.
    """
    if bounds.ndim != 2 or bounds.shape[0] != 2 or bounds.shape[1] < 1:
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to have shape `2 x d`, d >= 1. Got {tuple(bounds.shape)}."
        )
    if not (bounds.isfinite().all() and (bounds[0] < bounds[1]).all()):
        raise ValueError(
            f"Expected finite `{name}` with each lower bound below its upper bound. "
            f"Got {bounds.tolist()}."
        )
    return as_data(bounds)


def unit_cube(bounds: Tensor) -> Tensor:
    r"""The bounds of the unit cube, `2 x d`."""
    return torch.stack([torch.zeros_like(bounds[0]), torch.ones_like(bounds[0])])


def check_columns(X: Tensor, num_columns: int) -> None:
    r"""Raises a `BotorchTensorDimensionError` if points are not `R x q x num_columns`, q >= 1."""
    if X.ndim != 3 or X.shape[-1] != num_columns or X.shape[1] < 1:
        raise BotorchTensorDimensionError(
            f"Expected `X` to have shape `R x q x {num_columns}`, q >= 1. Got {tuple(X.shape)}."
        )


def check_within(X: Tensor, bounds: Tensor) -> None:
    r"""Raises an `InputDataError` if a decision, in the first columns, is outside the bounds."""
    lower, upper = bounds
    decisions, slack = X[..., : len(lower)], _ROUNDING * (upper - lower)
    outside = (decisions < lower - slack) | (decisions > upper + slack)
    if outside.any():
        row = decisions[outside.any(dim=-1)][0].tolist()
        raise InputDataError(f"Expected points within bounds={bounds.tolist()}. Got {row}.")
