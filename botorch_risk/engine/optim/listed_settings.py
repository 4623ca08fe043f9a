r"""All settings of discrete columns that satisfy linear constraints."""

from __future__ import annotations

import numpy as np
from numpy import ndarray

# On the way the list may be this many times as long: 2^21 settings of ten columns are 168 MB.
_GROWTH = 32


def listed_settings(
    matrix: ndarray, limit: ndarray, length: ndarray, most: int, rounding: float
) -> ndarray | None:
    r"""All vectors `x` of whole numbers from 0 to `length` with `matrix @ x <= limit`, `n x d`.

    They are built column by column, dropping at once what later columns cannot bring within the
    limits. They are in ascending order; None if there are more than `most`. `rounding` is how far a
    sum may exceed its limit.
    """
    settings = np.zeros((1, 0))
    for column, largest in enumerate(length):
        steps = np.arange(largest + 1)
        if len(settings) * len(steps) > _GROWTH * most:
            return None
        settings = np.c_[
            np.repeat(settings, len(steps), axis=0), np.tile(steps, len(settings))[:, None]
        ]
        # The least that the columns to come can add to each sum.
        least = np.minimum(matrix[:, column + 1 :] * length[column + 1 :], 0.0).sum(axis=1)
        sums = settings @ matrix[:, : column + 1].T + least
        settings = settings[(sums <= limit + rounding).all(axis=1)]
    return settings if len(settings) <= most else None
