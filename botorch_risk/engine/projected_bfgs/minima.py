r"""The result of minimising many rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy import ndarray


class RowStatus(IntEnum):
    r"""The outcome of one row's minimisation."""

    RUNNING = 0
    CONVERGED = 1
    ITERATION_LIMIT = 2
    STALLED = 3
    FAILED = 4
    OVERTAKEN = 5


@dataclass(frozen=True)
class Minima:
    r"""What `minimize_rows` found.

    Args:
        x: The best points, `rows x p`; the start where a row failed.
        value: The objective there, `rows`.
        status: A `RowStatus` for each row: converged; at the iteration limit; stalled (even
            steepest descent does not lower the objective); failed (not finite at the start); or
            overtaken by a lower row of its group.
        num_evaluations: The number of evaluations of each row.
        metric: The approximate inverse Hessian at its end, `rows x p x p`; NaN if nothing was
            learnt.
    """

    x: ndarray
    value: ndarray
    status: ndarray
    num_evaluations: ndarray
    metric: ndarray

    def of(self, index: ndarray) -> Minima:
        return Minima(*(getattr(self, f.name)[index] for f in fields(self)))

    def joined(self, other: Minima) -> Minima:
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Minima(*(np.concatenate(pair) for pair in pairs))
