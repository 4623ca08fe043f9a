r"""Expected gains in the logarithm, where the gain itself would be 0 in floating point."""

import math

import torch
from torch import Tensor


def log_standard_improvement(u: Tensor) -> Tensor:
    r"""The logarithm of `phi(u) + u Phi(u)`, what a standard normal exceeds `-u` by on average.

    It is 0 in floating point where u is below -38; its logarithm is exact there too.
    """
    near = u.clamp_min(-1.0)
    far = u.clamp_max(-1.0)
    ratio = math.sqrt(math.pi / 2) * torch.special.erfcx(-far / math.sqrt(2))  # Phi / phi
    # Far out 1 + u Phi(u) / phi(u) is lost to rounding, and its series in 1 / u^2 is exact.
    bound = -(torch.finfo(u.dtype).eps ** -0.25)
    series = torch.log1p(-3 / far.clamp_max(bound).square()) - 2 * (-far).log()
    tail = torch.where(far > bound, torch.log1p(far.clamp_min(bound) * ratio), series)
    excess = _log_phi(near).exp() + near * torch.special.ndtr(near)
    return torch.where(u > -1.0, excess.log(), _log_phi(far) + tail)


def log_expected_gain(values: Tensor, slopes: Tensor) -> Tensor:
    r"""The logarithm of what the largest of several lines gains on average.

        log( E[max_p (a_p + s_p Z)] - max_p a_p ),   Z standard normal

    Of the lines on the upper envelope, in the order of their slopes, each adds
    `(s_p - s_q) h(-|c|)`: q is the line before it, c where the two cross, and h is the expected
    improvement of `log_standard_improvement`. Sec. 3 of [Frazier2009kgcb]_. All terms are positive,
    so that nothing is lost to rounding.

    Args:
        values: `... x P`.
        slopes: `... x P`; both are differentiable and broadcast to each other.

    Returns:
        `...`, minus infinity where all slopes are equal.
    """
    values, slopes = torch.broadcast_tensors(values, slopes)
    shape = values.shape[:-1]
    a, s = (each.reshape(-1, each.shape[-1]) for each in (values, slopes))
    gain, rows = a.new_full((len(a),), -torch.inf), torch.arange(len(a), device=a.device)
    # From line to line along the envelope. All pairs of lines at once would take P times the memory
    # and, for thousands of rows, six to nine times the time. A GPU waits once for each step.
    slowest = s > s.amin(dim=-1, keepdim=True)
    line = a.masked_fill(slowest, -torch.inf).argmax(dim=-1, keepdim=True)
    for _ in range(a.shape[-1] - 1):
        faster = s - s.gather(-1, line)
        crossing = (a.gather(-1, line) - a) / faster.where(faster > 0, 1.0)
        # Lines that cross in one point follow each other there, and their steps add up to one.
        at, following = crossing.where(faster > 0, torch.inf).min(dim=-1, keepdim=True)
        goes_on = at.isfinite().squeeze(-1)
        step = faster.gather(-1, following).squeeze(-1).where(goes_on, 1.0)
        improvement = log_standard_improvement(-at.squeeze(-1).where(goes_on, 0.0).abs())
        term = (step.log() + improvement).where(goes_on, -torch.inf)
        gain = gain.index_put((rows,), torch.logaddexp(gain[rows], term))
        if not goes_on.any():
            break
        line = following.where(goes_on.unsqueeze(-1), line)
        if 2 * int(goes_on.sum()) < len(goes_on):  # few are left
            a, s, line, rows = (each[goes_on] for each in (a, s, line, rows))
    return gain.reshape(shape)


def _log_phi(u: Tensor) -> Tensor:
    return -0.5 * (u.square() + math.log(2 * math.pi))
