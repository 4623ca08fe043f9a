r"""Profiles of stationary kernels in NumPy; `kernels` has them for tensors."""

import math

import numpy as np
from numpy import ndarray


def profile_and_slope(
    squared_distance: ndarray, nu: float, needs_slope: bool = True
) -> tuple[ndarray, ndarray | None]:
    r"""The profile, and its slope if needed, as in `correlation_and_slope`.

    For the squared exponential they are one array.
    """
    if nu == math.inf:
        profile = np.exp(-0.5 * squared_distance)
        return profile, profile if needs_slope else None
    s = np.sqrt(2 * nu * squared_distance)
    decay = np.exp(-s)
    linear, slope = decay + s * decay, None
    if nu == 0.5:
        if needs_slope:
            slope = np.divide(decay, s, out=np.zeros_like(s), where=s > 0)
        return decay, slope
    if nu == 1.5:
        return linear, 3 * decay if needs_slope else None
    if needs_slope:
        slope = linear * (5 / 3)
    # (1 + s) exp(-s) + s^2 exp(-s) / 3, without new memory.
    s *= s
    s *= decay
    s /= 3
    s += linear
    return s, slope
