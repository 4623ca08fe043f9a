r"""Values and gradients of an acquisition function at points that do not interact."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, OneShotAcquisitionFunction
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.utils.transforms import is_ensemble
from numpy import ndarray
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.optim.discrete_columns import DiscreteColumns
from botorch_risk.engine.posterior.fast_marginals import bound_on_host, with_fast_marginals
from botorch_risk.engine.projected_bfgs.arrays import Array, Arrays
from botorch_risk.engine.recorded import ENTRIES_OF_A_POINT, Recorded, are_recorded
from botorch_risk.gradients import differentiated
from botorch_risk.steady import once, sent

# Points of one call, all replicates counted.
_POINTS = ChunkSize(cpu=2**13, gpu=2**20)


@runtime_checkable
class PointwiseAcquisition(Protocol):
    r"""An acquisition function that evaluates many points at once, each by itself.

    Ordinary acquisition functions take `m` points as `m x batch_shape x 1 x d`, which repeats the
    model's training data `m` times. With points `batch_shape x m x d` they are not repeated.

    `optimize_acqf_replicates` differentiates it by autograd, or asks its `value_and_gradient(X)`,
    if it has one, for values `batch_shape x m` and gradients `batch_shape x m x d`.

    Example:
        >>> from botorch_risk.engine import optimize_acqf_replicates
        >>> class Height:
        ...     def evaluate(self, X):
        ...         return -((X - 0.3) ** 2).sum(dim=-1)
        >>> bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
        >>> X, value = optimize_acqf_replicates(
        ...     Height(), bounds, seeds=[0, 1], num_restarts=2, raw_samples=8
        ... )
        >>> X.round(decimals=3).squeeze(-2)
        tensor([[0.3000, 0.3000],
                [0.3000, 0.3000]], dtype=torch.float64)
    """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The values, `batch_shape x m`, of points `batch_shape x m x d`, each by itself.

        `batch_shape` is the model's.
        """
        ...


def form_on_host(acqf: Any, num_points: int) -> Callable[..., tuple[ndarray, ndarray]] | None:
    r"""A NumPy function for values and gradients of few points, if an acquisition has one.

    `num_points` is the largest number of points of each replicate. The function maps points
    `batch_shape x m x d` to values and gradients, for as long as the model does not change.
    """
    own = getattr(acqf, "on_host", None)
    if own is None:
        return bound_on_host(acqf, num_points)
    found: Callable[..., tuple[ndarray, ndarray]] | None = own(num_points)
    return found


@dataclass(frozen=True)
class Packing:
    r"""The positions of rows among `R x m` points, with the same number per replicate.

    `place` is the position of each row; None if every replicate has the same number of rows.
    """

    num_replicates: int  # R
    width: int  # m
    place: Array | None

    def pack(self, points: Array) -> Array:
        r"""Rows `rows x d` as `R x m x d`; replicates with fewer rows are padded."""
        shape = self.num_replicates, self.width, points.shape[1]
        if self.place is None:
            return points.reshape(shape)
        count = self.num_replicates * self.width
        # Any point of the cube will do, as its results are dropped.
        like: Any = points.new_full if isinstance(points, Tensor) else np.full
        padded = like((count, points.shape[1]), 0.5)
        padded[self.place] = points
        return padded.reshape(shape)

    def unpack(self, results: Array) -> Array:
        r"""The rows among results `R x m x ...`."""
        rows = results.reshape(self.num_replicates * self.width, *results.shape[2:])
        return rows if self.place is None else rows[self.place]


class PointwiseEvaluator:
    r"""Evaluate acquisition functions with and without `evaluate` alike, in bounded chunks.

    Args:
        acqf: The acquisition function.
        box: Bounds, `2 x d`; the points get their dtype and device.
        num_replicates: The number `R` of replicates.
        batch_limit: As in `optimize_acqf_replicates`.
        discrete: Columns with a list of values; search points hold their indices.
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
                f"Got {type(acqf).__name__}, which also optimises fantasies."
            )
        model = getattr(acqf, "model", None)
        self.batch_shape = torch.Size([num_replicates])
        if model is not None:  # the members of an ensemble are no replicates
            self.batch_shape = torch.Size() if is_ensemble(model) else model.batch_shape
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
        self.has_kinks = bool(getattr(self._acqf, "has_kinks", False))
        own_gradient = getattr(self._acqf, "value_and_gradient", None)
        self._own_gradient = own_gradient if self._is_pointwise else None
        entries = _POINTS.entries(box.device) if batch_limit is None else batch_limit
        self._chunk = max(1, entries // num_replicates)
        self._recorded, self._width = Recorded(self._differentiated), 0

    @property
    def has_continuous(self) -> bool:
        r"""Whether a column is neither discrete nor held fixed."""
        free = self.box[1] > self.box[0]
        if self.discrete is not None:
            free[self.discrete.listed] = False
        return bool(free.any())

    def scale_up(self, points: Array) -> Tensor:
        r"""Convert search points from the unit cube to the units of the acquisition's inputs."""
        if isinstance(points, Tensor):
            lower, upper = self.box.to(points)
            X = torch.minimum(lower + (upper - lower) * points, upper).to(self.box)
        else:
            inside = self._lower + (self._upper - self._lower) * points
            X = sent(np.minimum(inside, self._upper), self.box.device).to(self.box)  # rounding
        return X if self.discrete is None else self.discrete.put(X, torch.as_tensor(points).to(X))

    def values(self, X: Tensor) -> Tensor:
        r"""Values `R x m` of points `R x m x d`."""
        return _joined(tuple(self._call(chunk) for chunk in X.split(self._chunk, dim=-2)))

    def values_at(self, points: ndarray, replicates: ndarray) -> ndarray:
        r"""Values `rows` of search points `rows x d`, given their replicates, ascending."""
        packing = self.packing(replicates)
        with torch.no_grad():
            values = self.values(self.scale_up(packing.pack(points))).cpu().double().numpy()
        rows: ndarray = packing.unpack(values)
        return rows

    def value_and_gradient(self, points: Array, packing: Packing) -> tuple[Array, Array]:
        r"""Values and gradients at rows of search points, by autograd or the acquisition's own.

        NumPy points are moved to the device and the results back; tensors stay there. Gradients,
        `rows x d`, are in the units of the cube, and 0 in discrete columns.
        """
        if isinstance(points, np.ndarray) and (on_host := self._on_host(packing.width)) is not None:
            return self._evaluated_on_host(on_host, points, packing)
        X = self.scale_up(packing.pack(points))
        # Points on the device come from a caller that records more than this.
        is_recorded = not isinstance(points, Tensor) and self.is_recorded(X.shape[1])
        differentiated = self._recorded if is_recorded else self._differentiated
        chunks = X.split(self._chunk, dim=-2)
        both: Array = _joined(tuple(differentiated(chunk) for chunk in chunks))
        if isinstance(points, Tensor):
            both, units = both.to(points), self.box[1] - self.box[0]
        else:  # in one download
            both, units = both.cpu().double().numpy(), self._upper - self._lower
        rows = packing.unpack(both)
        values, gradients = rows[:, 0], rows[:, 1:] * units
        if self.discrete is not None:  # these columns of a search point have indices
            gradients[:, self.discrete.listed] = 0.0
        return values, gradients

    def _on_host(self, width: int) -> Callable[..., tuple[ndarray, ndarray]] | None:
        r"""The acquisition's own form for NumPy, decided by the first points of a block."""
        key = "on host", id(self)
        if self.discrete is not None or self.box.dtype != torch.float64:
            return None
        found: Any = once(key, self, lambda: form_on_host(self._acqf, width))
        return found

    def _evaluated_on_host(
        self, evaluate: Callable[..., Any], points: ndarray, packing: Packing
    ) -> tuple[ndarray, ndarray]:
        units = self._upper - self._lower
        X = np.minimum(self._lower + units * packing.pack(points), self._upper)
        if self.batch_shape:
            values, gradients = evaluate(X)
        else:
            values, gradients = (each[None] for each in evaluate(X[0]))
        return packing.unpack(values), packing.unpack(gradients) * units

    def packing(
        self, replicates: ndarray, device: torch.device | None = None, is_of_a_step: bool = False
    ) -> Packing:
        r"""How rows, ordered by replicate, become points `R x m x d`; in NumPy without a device.

        `is_of_a_step` marks one of many calls in which rows finish one by one: recorded calls keep
        the shape of the first.
        """
        counts = np.bincount(replicates, minlength=self._num_replicates)
        width = int(counts.max(initial=0))
        if is_of_a_step and self.is_recorded(max(width, self._width)):
            width = self._width = max(width, self._width)
        if counts.min() == width:
            return Packing(len(counts), width, None)
        slots = np.arange(len(replicates)) - (np.cumsum(counts) - counts)[replicates]
        place: Array = replicates * width + slots
        return Packing(len(counts), width, Arrays(device).put(place))

    @property
    def _num_replicates(self) -> int:
        return self.batch_shape.numel()

    def is_recorded(self, width: int) -> bool:
        r"""Whether evaluations of `width` points of each replicate are recorded."""
        entries = self._num_replicates * width * ENTRIES_OF_A_POINT
        return self._is_pointwise and are_recorded(self.box.device, entries)

    def _differentiated(self, X: Tensor) -> Tensor:
        r"""Values and gradients of points `R x m x d`, `R x m x (1 + d)`."""
        values, gradient = self._differentiate(X)
        return torch.cat([values.unsqueeze(-1), gradient], dim=-1)

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
        # BoTorch's t-batch stands in front of the model's batch, `m x R x 1 x d`.
        if self.batch_shape:
            return self._acqf(X.transpose(0, 1).unsqueeze(-2)).transpose(0, 1)
        return self._acqf(X.squeeze(0).unsqueeze(-2)).unsqueeze(0)


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
