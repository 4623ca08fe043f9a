r"""Which rows of a group of minimisations can still end lowest.

Of many starts of one function only the lowest end matters. Most of the evaluations of a multi-start
are spent on starts that go where another one is already, or that end above it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

# How near a minimum a row counts as on its way there, and by how much its slope may then differ
# from the slope of the bowl.
NEAR, BOWL = 0.1, 0.1


@dataclass(frozen=True)
class Leaders:
    r"""The lowest value so far of each group of rows, and its point.

    Args:
        group: The group of each row, `rows`, from 0 on.
        value: `groups`.
        x: `groups x p`.
        hope: How many times the decrease that its metric promises a row may still hope for.
    """

    group: ndarray
    value: ndarray
    x: ndarray
    hope: float

    @classmethod
    def of(
        cls,
        group: ndarray,
        p: int,
        known: tuple[ndarray, ndarray] | None = None,
        hope: float = 30.0,
    ) -> Leaders:
        r"""Before any row is looked at.

        Args:
            group: The group of each row, `rows`, from 0 on.
            p: The number of coordinates.
            known: Points `groups x p` and their values `groups` to begin with; NaN for none.
            hope: How many times the decrease that its metric promises a row may still hope for.
        """
        if known is not None:
            x, value = known
            return cls(group, np.where(np.isnan(value), np.inf, value), x.copy(), hope)
        count = group.max(initial=-1) + 1
        return cls(group, np.full(count, np.inf), np.full((count, p), np.nan), hope)

    def overtake(
        self,
        index: ndarray,
        x: ndarray,
        value: ndarray,
        gradient: ndarray,
        promise: ndarray,
        error: ndarray,
    ) -> ndarray:
        r"""Takes the values of rows in, and returns which rows can hardly end lower.

        Args:
            index: Which row each is.
            x: Their points, `rows x p`.
            value: Their values, `rows`.
            gradient: Their gradients, `rows x p`, 0 where a bound holds a coordinate.
            promise: The decrease that the metric of each expects, `rows`.
            error: By how much a value may be wrong, `rows`: a row may fall behind its own past.
        """
        group = self.group[index]
        ahead = np.flatnonzero(value < self.value[group])
        ahead = ahead[np.argsort(-value[ahead], kind="stable")]  # of a group, the lowest last
        self.value[group[ahead]], self.x[group[ahead]] = value[ahead], x[ahead]
        gap, offset = value - self.value[group], x - self.x[group]
        # In the bowl of a minimum at a distance the slope towards it is twice the gap.
        close = np.abs(offset).max(axis=1, initial=0.0) <= NEAR  # False for NaN
        slope = (gradient * offset).sum(axis=1)
        follows = close & (np.abs(slope - 2 * gap) <= BOWL * 2 * gap)
        overtaken: ndarray = (gap > error) & (follows | (gap - error > self.hope * promise))
        return overtaken
