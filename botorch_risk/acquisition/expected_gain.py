r"""Compute expected gains as logarithms, since the gain itself may underflow to 0."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.acquisition.expected_gain_on_host import log_gain_of_lines
from botorch_risk.chunks import ChunkSize
from botorch_risk.steady import are_on_host

# Lines of all rows up to which comparing all pairs is faster.
_MAX_PAIRED = 2**10
# Entries of the values of lines.
_LINES = ChunkSize(cpu=2**17)


def log_standard_improvement(u: Tensor) -> Tensor:
    r"""The logarithm of `phi(u) + u Phi(u)`, the mean excess of a standard normal over `-u`.

    The excess is 0 in floating point if u is below -38; its logarithm is exact there too.
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
    r"""The logarithm of the expected gain of the largest of several lines.

        log( E[max_p (a_p + s_p Z)] - max_p a_p ),   Z standard normal

    The lines on the upper envelope are taken in the order of their slopes. Each adds
    `(s_p - s_q) h(-|c|)`: q is the line before it, c the point at which the two cross, and h is the
    expected improvement of `log_standard_improvement` (Sec. 3 of [Frazier2009kgcb]_). All terms are
    positive, so no digits cancel.

    Args:
        values: `... x P`.
        slopes: `... x P`; both are differentiable and broadcast to each other.

    Returns:
        `...`, minus infinity if all slopes are equal.
    """
    values, slopes = torch.broadcast_tensors(values, slopes)
    a, s = (each.reshape(-1, each.shape[-1]) for each in (values, slopes))
    gain: Tensor = _LogExpectedGain.apply(a, s)
    return gain.reshape(values.shape[:-1])


def largest_log_gains(values: Tensor, slopes: Tensor, excluded: Tensor) -> Tensor:
    r"""The log expected gains of candidates, or an upper bound where it rules a candidate out.

    The gain of several lines is at most the sum of the gains of each with the best one, which needs
    no envelope. Of the 4,800 candidates of a large table, the bound leaves 1 to 100.

    Args:
        values: `R x F x P`, for `F` sets of lines, over which the gains are added up.
        slopes: `R x m x P`, for `m` candidates.
        excluded: `R x m`, whether a candidate is left out; its gain is then minus infinity.

    Returns:
        `R x m`.
    """
    size = _LINES.rows(values.device, values.shape[1:].numel())

    def sums(gain: Callable[[Tensor, Tensor], Tensor], row: Tensor, candidate: Tensor) -> Tensor:
        parts = zip(row.split(size), candidate.split(size), strict=True)
        return torch.cat(
            [gain(values[r], slopes[r, c].unsqueeze(1)).logsumexp(dim=-1) for r, c in parts]
        )

    found = torch.full_like(slopes[..., 0], -torch.inf)
    free = (~excluded).nonzero(as_tuple=True)
    found[free] = sums(_log_gain_bound, *free)
    first = found.argmax(dim=-1)
    least = sums(log_expected_gain, torch.arange(len(first), device=first.device), first)
    left = ((found >= least.unsqueeze(-1)) & ~excluded).nonzero(as_tuple=True)
    found[left] = sums(log_expected_gain, *left)
    return found


def _log_gain_bound(values: Tensor, slopes: Tensor) -> Tensor:
    r"""An upper bound of `log_expected_gain`, `...`, of values `... x P` and slopes likewise.

    Two lines that cross at `c` gain `|s_p - s_q| h(-|c|)`, with

        h(-c) < 4 phi(c) / (c + sqrt(c^2 + 4))^2                        [Birnbaum1942mills]_
    """
    best, index = values.max(dim=-1, keepdim=True)
    apart = (slopes - slopes.expand_as(values).gather(-1, index)).abs()
    c = (best - values) / apart
    terms = (4 * apart / (c + (c.square() + 4).sqrt()).square()).log() + _log_phi(c)
    terms.masked_fill_(apart == 0, -torch.inf)
    # An exponential that underflows takes ten times as long.
    return terms.clamp_min(terms.amax(dim=-1, keepdim=True) - 100).logsumexp(dim=-1)


class _LogExpectedGain(torch.autograd.Function):
    r"""The log gain of lines `rows x P`.

    Line p is the largest for Z between `lower` and `upper`. So the derivatives of the gain are
    `phi(lower) - phi(upper)` in its slope and `Phi(upper) - Phi(lower)` in its value, minus 1 for
    the line that is best at Z = 0.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, s: Tensor) -> Tensor:
        few = len(a) * a.shape[-1] <= _MAX_PAIRED
        if few and are_on_host(a, s):
            found = log_gain_of_lines(a.detach().numpy(), s.detach().numpy())
            gain, lower, upper = map(torch.from_numpy, found)
            ctx.save_for_backward(lower, upper, gain)
            return gain
        lower, upper = _by_pairs(a, s) if few else _by_walk(a, s)
        on_envelope = lower < upper
        ordered, order = s.where(on_envelope, torch.inf).sort(dim=-1)
        step = ordered[:, 1:] - ordered[:, :-1]  # infinite or undefined after the last line
        begins = lower.gather(-1, order)[:, 1:]
        goes_on = step.isfinite()
        terms = step.where(goes_on, 1.0).log() + log_standard_improvement(-begins.abs())
        gain = terms.where(goes_on, -torch.inf).logsumexp(dim=-1)
        ctx.save_for_backward(lower, upper, gain)
        return gain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        lower, upper, gain = ctx.saved_tensors
        grad, gain = grad.unsqueeze(-1), gain.unsqueeze(-1)
        none = (lower >= upper) | (gain == -torch.inf)
        # Relative to a gain that may be 0 in floating point: differences of logarithms.
        slope = (_log_phi(lower) - gain).exp() - (_log_phi(upper) - gain).exp()
        value = None
        if ctx.needs_input_grad[0]:
            # Of the two tails the one with the smaller probabilities: differences of numbers near 1
            # lose the digits that a small gain needs.
            left = (torch.special.log_ndtr(upper) - gain).exp()
            left = left - (torch.special.log_ndtr(lower) - gain).exp()
            right = (torch.special.log_ndtr(-lower) - gain).exp()
            right = right - (torch.special.log_ndtr(-upper) - gain).exp()
            beside = (torch.special.log_ndtr(lower) - gain).exp()
            beside = -beside - (torch.special.log_ndtr(-upper) - gain).exp()
            value = torch.where(upper <= 0, left, torch.where(lower > 0, right, beside))
            value = grad * value.masked_fill(none, 0.0)
        return value, grad * slope.masked_fill(none, 0.0)


def _by_pairs(a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    r"""The interval on which each line is the largest, from its crossings with all others.

    `rows x P` each; a line whose lower end is not below its upper end is nowhere the largest.
    """
    faster = s.unsqueeze(-2) - s.unsqueeze(-1)  # of the second line than the first
    ahead = a.unsqueeze(-1) - a.unsqueeze(-2)
    crossing = ahead / faster
    upper = crossing.where(faster > 0, torch.inf).amin(dim=-1)
    lower = crossing.where(faster < 0, -torch.inf).amax(dim=-1)
    # Of parallel lines the highest, and of equal lines the first.
    index = torch.arange(a.shape[-1], device=a.device)
    hidden = (faster == 0) & ((ahead < 0) | ((ahead == 0) & (index < index.unsqueeze(-1))))
    return lower.masked_fill(hidden.any(dim=-1), torch.inf), upper


def _by_walk(a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    r"""The result of `_by_pairs`, found by walking from line to line along the envelope.

    All pairs of lines at once would use P times the memory and, from 600 rows, 6 to 12 times the
    time (28 lines, one thread). A GPU waits once for each step.
    """
    lower, upper = torch.full_like(a, torch.inf), torch.full_like(a, -torch.inf)
    rows = torch.arange(len(a), device=a.device)
    slowest = s > s.amin(dim=-1, keepdim=True)
    line = a.masked_fill(slowest, -torch.inf).argmax(dim=-1, keepdim=True)
    lower[rows, line.squeeze(-1)] = -torch.inf
    for _ in range(a.shape[-1]):
        faster = s - s.gather(-1, line)
        crossing = (a.gather(-1, line) - a) / faster
        # Lines that cross in one point follow each other there, and their steps add up to one.
        at, following = crossing.where(faster > 0, torch.inf).min(dim=-1)
        upper[rows, line.squeeze(-1)] = at
        goes_on = at.isfinite()
        if not goes_on.any():
            break
        a, s, rows, at, following = (each[goes_on] for each in (a, s, rows, at, following))
        line = following.unsqueeze(-1)
        lower[rows, following] = at
    return lower, upper


def _log_phi(u: Tensor) -> Tensor:
    return -0.5 * (u.square() + math.log(2 * math.pi))
