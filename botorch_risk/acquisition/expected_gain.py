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
    faster = slopes.unsqueeze(-1) - slopes.unsqueeze(-2)  # s_p - s_q
    behind = values.unsqueeze(-2) - values.unsqueeze(-1)  # a_q - a_p
    crossing = behind / faster.where(faster != 0, 1.0)
    overtaken = crossing.where(faster > 0, -torch.inf)
    lower = overtaken.amax(dim=-1)  # from here on it is ahead of all slower lines
    upper = crossing.where(faster < 0, torch.inf).amin(dim=-1)
    count = torch.arange(values.shape[-1], device=values.device)
    first = count.unsqueeze(-1) > count  # of lines that are the same
    hidden = ((faster == 0) & ((behind > 0) | ((behind == 0) & first))).any(dim=-1)
    on_envelope = (lower < upper) & lower.isfinite() & ~hidden
    # Where several cross in one point, those between the slowest and the fastest have no part.
    step = faster.where(overtaken == lower.unsqueeze(-1), -torch.inf).amax(dim=-1)
    terms = step.where(on_envelope, 1.0).log() + log_standard_improvement(
        -lower.where(on_envelope, 0.0).abs()
    )
    return terms.masked_fill(~on_envelope, -torch.inf).logsumexp(dim=-1)


def _log_phi(u: Tensor) -> Tensor:
    return -0.5 * (u.square() + math.log(2 * math.pi))
