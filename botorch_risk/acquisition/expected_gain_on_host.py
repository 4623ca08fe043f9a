r"""The expected gain of the largest of a few lines, in NumPy; `expected_gain` is for tensors.

With four sets of 28 lines, NumPy takes a third of the time of the PyTorch calls.
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


# Parallel lines cross nowhere, and others far out: what comes of it is masked, or a limit.
@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def log_gain_of_lines(a: ndarray, s: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    r"""The log gain of lines `rows x P`, and the interval on which each is the largest.

    One row of values is enough if all rows share it.
    """
    lower, upper = _intervals(a, s)
    known = np.where(lower < upper, s, np.inf)
    order = known.argsort(axis=-1)
    step = np.diff(np.take_along_axis(known, order, axis=-1))
    begins = np.take_along_axis(lower, order, axis=-1)[:, 1:]
    goes_on = np.isfinite(step)
    terms = np.log(np.where(goes_on, step, 1.0)) + log_standard_improvement(-np.abs(begins))
    terms = np.where(goes_on, terms, -np.inf)
    # Without its largest exponent the sum of exponentials neither overflows nor underflows.
    largest = terms.max(axis=-1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    gain = np.log(np.exp(terms - shift[:, None]).sum(axis=-1)) + shift
    return gain, lower, upper


def _intervals(a: ndarray, s: ndarray) -> tuple[ndarray, ndarray]:
    faster = s[:, None, :] - s[:, :, None]
    ahead = a[:, :, None] - a[:, None, :]
    overtaken = faster > 0
    crossing = ahead / faster
    upper = np.where(overtaken, crossing, np.inf).min(axis=-1)
    lower = np.where(overtaken, crossing, -np.inf).max(axis=-2)
    num_lines = s.shape[-1]
    if 2 * np.count_nonzero(overtaken) < s.size * (num_lines - 1):  # some are parallel
        index = np.arange(num_lines)
        hidden = (faster == 0) & ((ahead < 0) | ((ahead == 0) & (index < index[:, None])))
        lower[hidden.any(axis=-1)] = np.inf
    return lower, upper


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def best_gain_over_w(
    a: ndarray, s: ndarray, supported: ndarray
) -> tuple[ndarray, ndarray, ndarray]:
    r"""The log gain of one reading of each decision, at the w of largest gain.

    Args:
        a: `B x P` values of the lines.
        s: `B x m x n_w x P` slopes.
        supported: Whether w may be read, broadcastable to `B x m x n_w`.

    Returns:
        Log gains and indices of w, `B x m` each, and the gradients of the gains in the slopes at
        that w, `B x m x P`.
    """
    best = a.argmax(axis=-1)
    behind = np.take_along_axis(a, best[:, None], axis=-1) - a
    own = np.take_along_axis(s, best[:, None, None, None], axis=-1)
    spread = np.abs(s - own)
    if not supported.all():
        spread *= supported[..., None]
    # A line gains the more, the more its slope differs: only the largest over w is needed.
    widest = np.maximum(spread.max(axis=-2), np.finfo(s.dtype).tiny)  # B x m x P
    gains = log_standard_improvement(-behind[:, None] / widest) + np.log(widest)
    # The best line gains nothing over itself; one that ties with it may, by another slope.
    np.put_along_axis(gains, best[:, None, None], -np.inf, axis=-1)
    line = gains.argmax(axis=-1)[..., None, None]
    index = np.take_along_axis(spread, line, axis=-1)[..., 0].argmax(axis=-1)
    slopes = np.take_along_axis(s, index[..., None, None], axis=-2)[..., 0, :]
    rows, P = slopes.reshape(-1, s.shape[-1]), s.shape[-1]
    values = a if len(a) == 1 else np.broadcast_to(a[:, None], slopes.shape).reshape(-1, P)
    gain, lower, upper = log_gain_of_lines(values, rows)
    slope = np.exp(_log_phi(lower) - gain[:, None]) - np.exp(_log_phi(upper) - gain[:, None])
    slope = np.where((lower < upper) & np.isfinite(gain[:, None]), slope, 0.0)
    return gain.reshape(index.shape), index, slope.reshape(slopes.shape)


def _log_phi(u: ndarray) -> ndarray:
    found: ndarray = -0.5 * np.square(u) - _LOG_ROOT
    return found
