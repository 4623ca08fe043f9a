r"""Store the rows of a minimisation in NumPy, or in PyTorch on a device.

Operators, indexing, `where`, `minimum`, `maximum`, `isfinite` and `zeros_like` are the same in
both. This module has the rest, above all transfers and whatever reads values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy import ndarray

from botorch_risk.steady import sent

Array = Any  # an ndarray or a Tensor
Objective = Callable[[Array, ndarray], tuple[Array, Array]]

# Steps on a device between looks at which rows have finished, and the share of finished rows from
# which the others are gathered: to evaluate a few in vain costs less than to wait.
STEPS_BETWEEN_LOOKS = 4
FEW_FINISHED = 0.25


@dataclass(frozen=True)
class Arrays:
    r"""NumPy without a device, else PyTorch on the device."""

    device: torch.device | None = None

    @property
    def functions(self) -> Any:
        return np if self.device is None else torch

    @property
    def few_finished(self) -> float:
        r"""The share of finished rows below which they are kept with the others."""
        return 0.0 if self.device is None else FEW_FINISHED

    def is_time_to_look(self, step: int) -> bool:
        return self.device is None or step % STEPS_BETWEEN_LOOKS == 0

    def any(self, mask: Array) -> bool:
        r"""Whether there is work for any row; on a device always true, to avoid a wait."""
        return self.device is not None or bool(np.count_nonzero(mask))

    def where(self, mask: Array, array: Array, other: Array) -> Array:
        r"""Rows of an array where a mask `rows` is True, and rows of `other` elsewhere."""
        dims = other.ndim - mask.ndim
        return self.functions.where(mask[(..., *[None] * dims)] if dims else mask, array, other)

    def put_in(self, array: Array, mask: Array, number: float) -> Array:
        r"""The array with a number written where a mask of its shape is True."""
        if self.device is None:
            return np.where(mask, number, array)
        return array.masked_fill(mask, number)

    def at_least(self, array: Array, least: float) -> Array:
        return np.maximum(array, least) if self.device is None else array.clamp_min(least)

    def at_most(self, array: Array, most: float) -> Array:
        return np.minimum(array, most) if self.device is None else array.clamp_max(most)

    def dot(self, vectors: Array, others: Array) -> Array:
        r"""The inner product of each row of `vectors` with the same row of `others`."""
        if self.device is None:  # as BLAS adds, like `Alone`
            return (vectors[:, None, :] @ others[:, :, None])[:, 0, 0]
        return (vectors * others).sum(dim=1)

    def evaluated(self, objective: Objective, x: Array, index: ndarray) -> tuple[Array, Array]:
        return objective(x, index)

    def put(self, array: ndarray) -> Array:
        return array if self.device is None else sent(array, self.device)

    def get(self, *arrays: Array) -> list[ndarray]:
        r"""Arrays with one entry per row on the host, all in one transfer."""
        if self.device is None:
            return list(arrays)
        joined = torch.cat([array.reshape(len(array), -1) for array in arrays], dim=1)
        ends = np.cumsum([array[0].numel() for array in arrays])
        parts = np.split(joined.cpu().numpy(), ends[:-1], axis=1)
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def identity(self, size: int) -> Array:
        if self.device is None:
            return np.eye(size)
        return torch.eye(size, dtype=torch.double, device=self.device)

    def largest(self, vectors: Array) -> Array:
        r"""The largest absolute entry of each row."""
        if self.device is None:
            return abs(vectors).max(axis=1, initial=0.0)
        return torch.linalg.vector_norm(vectors, torch.inf, dim=1)

    def lower(self, lowest: Array, group: Array, value: Array) -> Array:
        r"""`lowest`, or the lowest value of each group where this is lower."""
        if self.device is not None:
            return lowest.scatter_reduce(0, group, value, "amin")
        lowest = lowest.copy()
        np.minimum.at(lowest, group, value)
        return lowest


class Alone(Arrays):
    r"""NumPy for a single row, whose numbers are scalars: a step takes half of the time.

    Its vectors and its matrix have no dimension of rows.
    """

    def any(self, mask: Array) -> bool:
        return bool(mask)

    def where(self, mask: Array, array: Array, other: Array) -> Array:
        return array if mask else other

    def put_in(self, array: Array, mask: Array, number: float) -> Array:
        if array.ndim:
            return np.where(mask, number, array) if np.count_nonzero(mask) else array
        return array.dtype.type(number) if mask else array

    def at_least(self, array: Array, least: float) -> Array:
        return np.float64(least) if array < least else array  # NaN stays

    def at_most(self, array: Array, most: float) -> Array:
        return np.float64(most) if array > most else array

    def dot(self, vectors: Array, others: Array) -> Array:
        return vectors @ others

    def largest(self, vectors: Array) -> Array:
        return abs(vectors).max(initial=0.0)

    def evaluated(self, objective: Objective, x: Array, index: ndarray) -> tuple[Array, Array]:
        value, gradient = objective(x[None], index)
        return value[0], gradient[0]
