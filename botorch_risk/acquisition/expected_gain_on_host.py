r"""The gain of the largest of a few lines, in NumPy; `expected_gain` has it for tensors.

With four sets of 28 lines the arithmetic takes a third of the time of the PyTorch calls.
"""

import math

import numpy as np
from numpy import ndarray
from scipy.special import erfcx, ndtr

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def log_standard_improvement(u: ndarray) -> ndarray:
    r"""The logarithm of the mean excess of a standard normal over `-u`."""
    near, far = np.maximum(u, -1.0), np.minimum(u, -1.0)
    ratio = math.sqrt(math.pi / 2) * erfcx(-far / math.sqrt(2))
    bound = -(np.finfo(u.dtype).eps ** -0.25)
    series = np.log1p(-3 / np.square(np.minimum(far, bound))) - 2 * np.log(-far)
    tail = np.where(far > bound, np.log1p(np.maximum(far, bound) * ratio), series)
    excess = np.exp(_log_phi(near)) + near * ndtr(near)
    found: ndarray = np.where(u > -1.0, np.log(excess), _log_phi(far) + tail)
    return found


def log_gain_of_lines(a: ndarray, s: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    r"""The log gain of lines `rows x P`, and the interval on which each is the largest."""
    faster = s[:, None, :] - s[:, :, None]
    ahead = a[:, :, None] - a[:, None, :]
    index = np.arange(a.shape[-1])
    hidden = (faster == 0) & ((ahead < 0) | ((ahead == 0) & (index < index[:, None])))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ahead / faster
        upper = np.where(faster > 0, crossing, np.inf).min(axis=-1)
        lower = np.where(faster < 0, crossing, -np.inf).max(axis=-1)
        lower[hidden.any(axis=-1)] = np.inf
        known = np.where(lower < upper, s, np.inf)
        order = known.argsort(axis=-1)
        step = np.diff(np.take_along_axis(known, order, axis=-1))
        begins = np.take_along_axis(lower, order, axis=-1)[:, 1:]
        goes_on = np.isfinite(step)
        terms = np.log(np.where(goes_on, step, 1.0)) + log_standard_improvement(-np.abs(begins))
        terms = np.where(goes_on, terms, -np.inf)
        largest = terms.max(axis=-1, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        gain = np.log(np.exp(terms - shift[:, None]).sum(axis=-1)) + shift
    return gain, lower, upper


def _log_phi(u: ndarray) -> ndarray:
    found: ndarray = -0.5 * np.square(u) - _LOG_ROOT
    return found
