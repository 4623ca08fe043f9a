r"""Search over discrete and continuous columns in turn, from many points at once."""

import numpy as np
import torch
from numpy import ndarray

from botorch_risk.optim.ascent import Scale, climb
from botorch_risk.optim.discrete_columns import DiscreteColumns
from botorch_risk.optim.pointwise import PointwiseEvaluator
from botorch_risk.projected_bfgs.minima import RowStatus

# The least improvement that counts, in standard deviations of the raw values, as in BoTorch.
TOLERANCE = 1e-8
MAX_ALTERNATIONS = 64  # as in BoTorch


def alternate(
    evaluator: PointwiseEvaluator,
    columns: DiscreteColumns,
    starts: ndarray,
    scale: Scale,
    max_iterations: int,
) -> tuple[ndarray, ndarray]:
    r"""Maximise over discrete and continuous columns in turn, from each start by itself.

    As `optimize_acqf_mixed_alternating` does: moves to the best neighbour while there is a better
    one, quasi-Newton steps over the continuous columns, and both again until neither improves.
    `starts` are search points, `R x S x d`.

    Returns:
        The best search point of each replicate, `R x 1 x d`, and the replicates in which some start
        failed.
    """
    num_replicates, num_starts, d = starts.shape
    replicates = np.repeat(np.arange(num_replicates), num_starts)
    points = starts.reshape(-1, d).copy()
    values = scale.standardized(evaluator.values_at(points, replicates), replicates)
    tolerance = _tolerance(evaluator, scale)[replicates]
    active, failed = np.arange(len(points)), np.zeros(len(points), dtype=bool)
    for _ in range(MAX_ALTERNATIONS):
        before = values[active]
        _move(evaluator, columns, points, values, active, scale, tolerance, max_iterations)
        if evaluator.has_continuous:
            minima = climb(evaluator, points[active], replicates[active], scale, max_iterations)
            better = minima.value < -values[active]
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
    columns: DiscreteColumns,
    points: ndarray,
    values: ndarray,
    active: ndarray,
    scale: Scale,
    tolerance: ndarray,
    max_moves: int,
) -> None:
    r"""Move active points, in place, to their best neighbours while these are better."""
    num_starts = len(points) // len(scale.center)
    for _ in range(max_moves):
        candidates, rows = columns.neighbors(points[active])
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
        moves = value > values[active] + tolerance[active]
        first = np.cumsum(counts) - counts
        taken = (first + best)[moves]
        active = active[moves]
        if not active.size:
            return
        points[active], values[active] = candidates[taken], value[moves]


def _first_best(values: ndarray, tolerance: ndarray) -> ndarray:
    r"""The first column of each row whose value is the largest up to rounding.

    Two categories that were never observed may have the same value: the choice must not
    depend on rounding, and with it on the other replicates of the batch.
    """
    largest = values.max(axis=1, keepdims=True)
    return (values >= largest - tolerance).argmax(axis=1)


def _tolerance(evaluator: PointwiseEvaluator, scale: Scale) -> ndarray:
    r"""The least improvement of each replicate that is more than rounding, `R`."""
    precision = 100 * float(torch.finfo(evaluator.box.dtype).eps)
    return np.maximum(TOLERANCE, precision * np.maximum(1.0, np.abs(scale.center) / scale.spread))
