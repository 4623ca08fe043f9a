r"""Quasi-Newton ascent of an acquisition function, from many points at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.optim.discrete_columns import DiscreteColumns
from botorch_risk.engine.optim.pointwise import PointwiseEvaluator
from botorch_risk.engine.optim.polytope import Polytope
from botorch_risk.engine.projected_bfgs import minimize_rows
from botorch_risk.engine.projected_bfgs.arrays import Array, Arrays
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from botorch_risk.engine.recorded import Recorded

# A start has arrived when this many evaluations have gained less than this, in standard deviations
# of the acquisition values at raw points; half as many at kinks, near which they go on for long.
WORTHWHILE, PATIENCE, AT_KINKS = 1e-6, 20, 10


@dataclass(frozen=True)
class Scale:
    r"""The units in which each replicate is maximised, so that tolerances mean the same everywhere.

    `center` and `spread` are mean and standard deviation of each replicate's raw values, `R`.
    """

    center: ndarray
    spread: ndarray

    def standardized(self, values: ndarray, replicates: ndarray) -> ndarray:
        standard: ndarray = (values - self.center[replicates]) / self.spread[replicates]
        return standard


def climb(
    evaluator: PointwiseEvaluator,
    starts: ndarray,
    replicates: ndarray,
    scale: Scale,
    max_iterations: int,
    polytope: Polytope | None = None,
) -> Minima:
    r"""Climb from search points `rows x d` without changing discrete columns.

    `replicates` has the replicate of each row, ascending. If there is a polytope, it contains the
    starts and the ends. Returns the minima of the negative standardised values.
    """
    lower, upper = np.zeros(starts.shape[-1]), np.ones(starts.shape[-1])
    if evaluator.discrete is not None:
        lower, upper = (np.broadcast_to(bound, starts.shape).copy() for bound in (lower, upper))
        held = evaluator.discrete.listed  # equal bounds fix these columns
        lower[:, held] = upper[:, held] = starts[:, held]
    # Linear limits and columns that are held differ by row, and so does the work of a step.
    stays = evaluator.discrete is None and polytope is None
    device = evaluator.box.device if stays and evaluator.box.device.type != "cpu" else None
    return minimize_rows(
        _Descent(evaluator, replicates, scale, device),
        starts,
        lower,
        upper,
        max_iterations=max_iterations,
        precision=float(torch.finfo(evaluator.box.dtype).eps),
        worthwhile=WORTHWHILE,
        patience=AT_KINKS if evaluator.has_kinks else PATIENCE,
        groups=replicates,
        kinks=evaluator.has_kinks,
        device=device,
        within=None if polytope is None else polytope.polyhedron,
    )


class _Descent:
    r"""Standardised values with their sign changed, and their gradients, for `minimize_rows`.

    On a device a call is one recording, if the acquisition can be recorded.
    """

    def __init__(
        self,
        evaluator: PointwiseEvaluator,
        replicates: ndarray,
        scale: Scale,
        device: torch.device | None,
    ) -> None:
        self._evaluator, self._replicates, self._scale = evaluator, replicates, scale
        self._device, self._rows = device, replicates[:0]
        self._replayed = Recorded(self._joined)

    def __call__(self, points: Array, rows: ndarray) -> tuple[Array, Array]:
        if rows is not self._rows:  # the minimiser keeps the object while the rows are the same
            of_rows, self._rows = self._replicates[rows], rows
            self._packing = self._evaluator.packing(of_rows, self._device, is_of_a_step=True)
            units = np.stack([self._scale.center, self._scale.spread])[:, of_rows]
            self._center, self._spread = Arrays(self._device).put(units)
            self._is_recorded = self._evaluator.is_recorded(self._packing.width)
        if self._device is None or not self._is_recorded:
            return self._evaluated(points)
        both = self._replayed(points)
        return both[:, 0], both[:, 1:]

    def _joined(self, points: Tensor) -> Tensor:
        value, gradient = self._evaluated(points)
        return torch.cat([value.unsqueeze(-1), gradient], dim=-1)

    def _evaluated(self, points: Array) -> tuple[Array, Array]:
        value, gradient = self._evaluator.value_and_gradient(points, self._packing)
        return (self._center - value) / self._spread, -gradient / self._spread[:, None]


# The least improvement that counts, in standard deviations of the raw values, as in BoTorch.
TOLERANCE = 1e-8
MAX_ALTERNATIONS = 64  # as in BoTorch


def alternate(
    evaluator: PointwiseEvaluator,
    columns: DiscreteColumns,
    starts: ndarray,
    scale: Scale,
    max_iterations: int,
    polytope: Polytope | None = None,
) -> tuple[ndarray, ndarray]:
    r"""Maximise alternately over discrete and continuous columns, from each start separately.

    As in `optimize_acqf_mixed_alternating`: move to the best neighbour while one is better, take
    quasi-Newton steps over the continuous columns, and repeat until neither improves. `starts` are
    search points, `R x S x d`. Returns the best one of each replicate, `R x 1 x d`, and the
    replicates in which some start failed.
    """
    num_replicates, num_starts, d = starts.shape
    replicates = np.repeat(np.arange(num_replicates), num_starts)
    points = starts.reshape(-1, d).copy()
    values = scale.standardized(evaluator.values_at(points, replicates), replicates)
    tolerance = _tolerance(evaluator, scale)[replicates]
    active, failed = np.arange(len(points)), np.zeros(len(points), dtype=bool)
    neighbors = columns.neighbors if polytope is None else partial(polytope.neighbors, columns)
    for _ in range(MAX_ALTERNATIONS):
        before = values[active]
        _move(evaluator, neighbors, points, values, active, scale, tolerance, max_iterations)
        if evaluator.has_continuous:
            rows = replicates[active]
            minima = climb(evaluator, points[active], rows, scale, max_iterations, polytope)
            better = minima.value < -values[active]  # False for NaN, of a start that failed
            points[active[better]] = minima.x[better]
            values[active[better]] = -minima.value[better]
            failed[active] |= minima.status == RowStatus.FAILED
        active = active[values[active] > before + tolerance[active]]
        if not active.size:
            break
    best = _first_best(values.reshape(num_replicates, num_starts), tolerance[::num_starts, None])
    chosen = points.reshape(starts.shape)[np.arange(num_replicates), best]
    return chosen[:, None, :], np.unique(replicates[failed])


def _move(
    evaluator: PointwiseEvaluator,
    neighbors: Callable[[ndarray], tuple[ndarray, ndarray]],
    points: ndarray,
    values: ndarray,
    active: ndarray,
    scale: Scale,
    tolerance: ndarray,
    max_moves: int,
) -> None:
    r"""Move active points, in place, to their best neighbours while that improves them."""
    num_starts = len(points) // len(scale.center)
    for _ in range(max_moves):
        candidates, rows = neighbors(points[active])
        if not len(candidates):
            return
        replicates = active[rows] // num_starts
        found = scale.standardized(evaluator.values_at(candidates, replicates), replicates)
        # One line a point, padded by minus infinity, of the values at its neighbours.
        counts = np.bincount(rows, minlength=len(active))
        slots = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        table = np.full((len(active), counts.max()), -np.inf)
        table[rows, slots] = np.where(np.isnan(found), -np.inf, found)
        best = _first_best(table, tolerance[active, None])
        value = table[np.arange(len(active)), best]
        # By more than rounding, or two points of one value could take turns.
        moves = value > values[active] + tolerance[active]
        first = np.cumsum(counts) - counts
        taken = (first + best)[moves]
        active = active[moves]
        if not active.size:
            return
        points[active], values[active] = candidates[taken], value[moves]


def _first_best(values: ndarray, tolerance: ndarray) -> ndarray:
    r"""The first column of each row whose value is the largest up to rounding.

    Two unobserved categories may have the same value: the choice must not depend on rounding, and
    hence on the other replicates of the batch.
    """
    largest = values.max(axis=1, keepdims=True)
    return (values >= largest - tolerance).argmax(axis=1)


def _tolerance(evaluator: PointwiseEvaluator, scale: Scale) -> ndarray:
    r"""The smallest improvement of each replicate above rounding, `R`."""
    precision = 100 * float(torch.finfo(evaluator.box.dtype).eps)
    return np.maximum(TOLERANCE, precision * np.maximum(1.0, np.abs(scale.center) / scale.spread))
