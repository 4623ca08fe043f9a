r"""Decide which rows of a group of minimisations can still end lowest.

With many starts of one function only the lowest end matters. A multi-start spends most evaluations
on starts that approach another start's minimum or end above it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from botorch_risk.engine.projected_bfgs.arrays import Array, Arrays

# How near a minimum a row counts as on its way there, and by how much its slope may then differ
# from the slope of the bowl.
NEAR, BOWL = 0.1, 0.1


@dataclass
class Leaders:
    r"""The lowest value so far of each group of rows, and its point."""

    on: Arrays
    value: Array  # `groups`, and one more entry that belongs to no group
    x: Array  # their points, (groups + 1) x p
    hope: float  # the factor by which a row may still beat its predicted decrease
    kinks: bool = False

    @classmethod
    def of(
        cls,
        groups: ndarray,
        p: int,
        known: tuple[ndarray, ndarray] | None = None,
        hope: float = 30.0,
        kinks: bool = False,
    ) -> Leaders:
        r"""Leaders on the host, of rows that have not begun."""
        count = groups.max(initial=-1) + 1 if known is None else len(known[1])
        lowest = np.full((count + 1, 1 + p), np.nan)
        if known is not None:
            lowest[:-1, 1:], lowest[:-1, 0] = known
        lowest[:, 0] = np.where(np.isnan(lowest[:, 0]), np.inf, lowest[:, 0])
        return cls(Arrays(), lowest[:, 0], lowest[:, 1:], hope, kinks)

    def on_device(self, on: Arrays) -> Leaders:
        return replace(self, on=on, value=on.put(self.value), x=on.put(self.x))

    def overtake(
        self, group: Array, x: Array, value: Array, gradient: Array, promise: Array, error: Array
    ) -> Array:
        r"""The rows that will hardly end lower than the lowest of their group.

        Args:
            group: As in `minimize_rows`, as are `x` and `value`.
            gradient: `rows x p`, 0 where a bound holds a coordinate.
            promise: The decrease that the metric of each row expects, `rows`.
            error: The error of each value, `rows`, by which a row may fall behind its own past.
        """
        lowest = self.on.lower(self.value, group, value)
        ahead = (value < self.value[group]) & (value == lowest[group])
        # A fixed number of rows is written: those that are not ahead, to the entry of no group.
        self.x[self.on.put_in(group, ~ahead, len(lowest) - 1)] = x
        self.value = lowest
        gap, offset = value - lowest[group], x - self.x[group]
        # In the bowl of a minimum at a distance the slope towards it is twice the gap, and on the
        # way to a kink the gap itself.
        close = self.on.largest(offset) <= NEAR  # False for NaN
        slope = self.on.dot(gradient, offset)
        in_bowl, to_kink = (abs(slope - k * gap) <= BOWL * k * gap for k in (2.0, 1.0))
        follows = close & (in_bowl | to_kink if self.kinks else in_bowl)
        return (gap > error) & (follows | (gap - error > self.hope * promise))
