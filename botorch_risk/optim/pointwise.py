r"""Values and gradients of an acquisition function at points that do not interact."""

from typing import Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, OneShotAcquisitionFunction
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from numpy import ndarray
from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisition, differentiated
from botorch_risk.chunks import ChunkSize
from botorch_risk.models.fast_marginals import with_fast_marginals
from botorch_risk.optim.discrete_columns import DiscreteColumns

# Points of one call, all replicates counted.
_POINTS = ChunkSize(cpu=2**11, gpu=2**20)


class PointwiseEvaluator:
    r"""One face for acquisitions with and without `evaluate`, in chunks of bounded size.

    Args:
        acqf: The acquisition function.
        box: Bounds, `2 x d`; their dtype and device are those of the points.
        num_replicates: The number `R` of replicates.
        batch_limit: The most points to evaluate in one call, all replicates together. Default: as
            `_POINTS` says of the device.
        discrete: Columns with a list of values; search points hold their indices.

    Raises:
        BotorchTensorDimensionError: If the model's batch shape does not fit `R`.
        UnsupportedError: If the acquisition is a one-shot one.
    """

    def __init__(
        self,
        acqf: AcquisitionFunction | PointwiseAcquisition,
        box: Tensor,
        num_replicates: int,
        batch_limit: int | None,
        discrete: DiscreteColumns | None = None,
    ) -> None:
        if isinstance(acqf, OneShotAcquisitionFunction):
            raise UnsupportedError(
                "Expected an acquisition function of single points. "
                f"Got {type(acqf).__name__}, which optimises its fantasies too."
            )
        model = getattr(acqf, "model", None)
        self.batch_shape = torch.Size([num_replicates]) if model is None else model.batch_shape
        if self.batch_shape != (num_replicates,) and (self.batch_shape or num_replicates != 1):
            raise BotorchTensorDimensionError(
                f"Expected a model of batch shape [{num_replicates}], one for each seed. "
                f"Got {self.batch_shape=}."
            )
        self.box, self.discrete = box, discrete
        self._lower, self._upper = box.cpu().double().numpy()
        self._acqf: Any = with_fast_marginals(acqf)
        # Asked once: a protocol that is checked at runtime looks at every member.
        self._is_pointwise = isinstance(self._acqf, PointwiseAcquisition)
        own_gradient = getattr(self._acqf, "value_and_gradient", None)
        self._own_gradient = own_gradient if self._is_pointwise else None
        entries = _POINTS.entries(box.device) if batch_limit is None else batch_limit
        self._chunk = max(1, entries // num_replicates)

    @property
    def has_continuous(self) -> bool:
        r"""Whether a column is neither discrete nor held fixed."""
        free = self.box[1] > self.box[0]
        if self.discrete is not None:
            free[self.discrete.listed] = False
        return bool(free.any())

    def scale_up(self, points: ndarray) -> Tensor:
        r"""Search points, of the unit cube, in the units of the acquisition's inputs."""
        inside = self._lower + (self._upper - self._lower) * points
        X = torch.as_tensor(np.minimum(inside, self._upper)).to(self.box)  # rounding
        return X if self.discrete is None else self.discrete.put(X, torch.as_tensor(points).to(X))

    def values(self, X: Tensor) -> Tensor:
        r"""Values `R x m` of points `R x m x d`."""
        return _joined(tuple(self._call(chunk) for chunk in X.split(self._chunk, dim=-2)))

    def values_at(self, points: ndarray, replicates: ndarray) -> ndarray:
        r"""Values `rows` of rows of search points `rows x d`, by their ascending replicates."""
        X, slots = self._packed(points, replicates)
        with torch.no_grad():
            values = self.values(X).cpu().double().numpy()
        rows: ndarray = values[replicates, slots]
        return rows

    def value_and_gradient(self, points: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Values and gradients at rows of search points, by autograd or the acquisition's own.

        Gradients, `rows x d`, are in the units of the cube, and 0 in discrete columns.
        """
        X, slots = self._packed(points, replicates)
        pieces = [self._differentiate(chunk) for chunk in X.split(self._chunk, dim=-2)]
        values, gradients = (_joined(parts) for parts in zip(*pieces, strict=True))
        both = torch.cat([values.unsqueeze(-1), gradients], dim=-1).cpu().double().numpy()
        rows = both[replicates, slots]  # of one download
        values, gradients = rows[:, 0], rows[:, 1:] * (self._upper - self._lower)
        if self.discrete is not None:
            gradients[:, self.discrete.listed] = 0.0
        return values, gradients

    def _packed(self, points: ndarray, replicates: ndarray) -> tuple[Tensor, ndarray]:
        r"""Rows as inputs `R x m x d`, and the slot of each among the `m` of its replicate."""
        counts = np.bincount(replicates, minlength=self._num_replicates)
        slots = np.arange(len(replicates)) - (np.cumsum(counts) - counts)[replicates]
        if counts.min() == counts.max():
            return self.scale_up(points.reshape(len(counts), -1, points.shape[1])), slots
        # Replicates with fewer rows left are padded, so that one call serves them all.
        padded = np.full((len(counts), counts.max(), points.shape[1]), 0.5)
        padded[replicates, slots] = points
        return self.scale_up(padded), slots

    @property
    def _num_replicates(self) -> int:
        return self.batch_shape.numel()

    def _differentiate(self, X: Tensor) -> tuple[Tensor, Tensor]:
        if self._own_gradient is None:
            return differentiated(self._call, X)
        values, gradient = self._own_gradient(X if self.batch_shape else X.squeeze(0))
        if self.batch_shape:
            return values, gradient
        return values.unsqueeze(0), gradient.unsqueeze(0)

    def _call(self, X: Tensor) -> Tensor:
        r"""Values `R x m` of points `R x m x d` in one call."""
        if self._is_pointwise:
            values = self._acqf.evaluate(X if self.batch_shape else X.squeeze(0))
            return values if self.batch_shape else values.unsqueeze(0)
        if self.batch_shape:
            return self._acqf(X.transpose(0, 1).unsqueeze(-2)).transpose(0, 1)
        return self._acqf(X.squeeze(0).unsqueeze(-2)).unsqueeze(0)


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
