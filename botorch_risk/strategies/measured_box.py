r"""Decisions of a box, each with the number of readings that are to be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.optim.pointwise import PointwiseAcquisition
from botorch_risk.strategies.space import Box, check_columns


@dataclass(frozen=True)
class MeasuredBox:
    r"""Decisions of a box, with the number of readings of each in one more, last column.

    What was observed is what counts: a reading that is missing is NaN among the outcomes.

    Args:
        box: The decisions.
        initial_repeats: The number of readings at each point of the initial design.

    Raises:
        ValueError: If the number is below 1.

    Example:
        >>> space = MeasuredBox(Box(torch.tensor([[0.0], [2.0]])), initial_repeats=3)
        >>> space.initial([0], 2)[..., -1]
        tensor([[3., 3.]])
    """

    box: Box
    initial_repeats: int

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(initial_repeats=self.initial_repeats)

    @property
    def bounds(self) -> Tensor:
        return self.box.bounds

    @property
    def num_columns(self) -> int:
        return self.box.num_columns + 1

    def of(self, replicates: Sequence[int]) -> MeasuredBox:
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Scrambled Sobol points, a function of each seed alone, with their number of readings."""
        X = self.box.initial(seeds, num_points)
        return torch.cat([X, torch.full_like(X[..., :1], self.initial_repeats)], dim=-1)

    def shown(self, asked: Tensor) -> Tensor:
        r"""The decisions with their numbers of readings."""
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Decisions within the bounds up to rounding, with whole numbers of readings."""
        check_columns(X, self.num_columns)
        decisions, counts = self.box.checked(X[..., :-1]), X[..., -1:]
        wrong = ~counts.isnan() & ~((counts >= 1) & (counts == counts.round()))
        if wrong.any():
            raise InputDataError(
                "Expected whole numbers of readings, at least 1, in the last column of points. "
                f"Got {counts[wrong][0].item():g}."
            )
        return torch.cat([decisions, counts], dim=-1)

    def unit(self, X: Tensor) -> Tensor:
        return self.box.unit(X)

    def from_unit(self, X: Tensor) -> Tensor:
        return self.box.from_unit(X)

    def maximize(
        self,
        acquisition: PointwiseAcquisition,
        seeds: Sequence[int],
        q: int,
        num_restarts: int,
        raw_samples: int,
    ) -> Tensor:
        return self.box.maximize(acquisition, seeds, q, num_restarts, raw_samples)
