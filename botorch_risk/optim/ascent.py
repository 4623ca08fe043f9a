r"""Quasi-Newton ascent of an acquisition function, from many points at once."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray

from botorch_risk.optim.pointwise import PointwiseEvaluator
from botorch_risk.projected_bfgs import minimize_rows
from botorch_risk.projected_bfgs.minima import Minima

# A start has arrived when this many evaluations have gained less than this, in standard deviations
# of the acquisition values at raw points.
WORTHWHILE, PATIENCE = 1e-6, 20


@dataclass(frozen=True)
class Scale:
    r"""The units in which each replicate is maximised, so that tolerances mean the same in all.

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
) -> Minima:
    r"""Climb from each start; discrete columns stay as they are.

    Args:
        evaluator: Evaluates the points.
        starts: Search points, `rows x d`.
        replicates: The replicate of each row, ascending.
        scale: The units of each replicate's values.
        max_iterations: The most steps from a start.

    Returns:
        The minima of the standardised values with their sign changed.
    """

    def objective(points: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        of_rows = replicates[rows]
        value, gradient = evaluator.value_and_gradient(points, of_rows)
        unit = scale.spread[of_rows]
        return (scale.center[of_rows] - value) / unit, -gradient / unit[:, None]

    lower, upper = np.zeros(starts.shape[-1]), np.ones(starts.shape[-1])
    if evaluator.discrete is not None:
        lower, upper = (np.broadcast_to(bound, starts.shape).copy() for bound in (lower, upper))
        held = evaluator.discrete.listed
        lower[:, held] = upper[:, held] = starts[:, held]
    return minimize_rows(
        objective,
        starts,
        lower,
        upper,
        max_iterations=max_iterations,
        precision=float(torch.finfo(evaluator.box.dtype).eps),
        worthwhile=WORTHWHILE,
        patience=PATIENCE,
        groups=replicates,
    )
