r"""The smallest expectations over divergence balls, which never leave the support."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from botorch_risk.arguments import as_floating, check_nonnegative
from botorch_risk.chunks import ChunkSize
from botorch_risk.risk.ball import Ball, centred, from_zero_to_one, may_stop, of_finite_rows

_STEPS = 26  # of the search for the tilt; 22 leave a gap of 3e-9 of the range on 28,800 instances
_TARGET_GAP = 1e-12  # of the range of the values
_CHUNK = ChunkSize(cpu=2**17)  # values


def kullback_leibler_worst_distribution(values: Tensor, weights: Tensor, radius: float) -> Tensor:
    r"""The distribution with the smallest expectation in a relative-entropy ball.

        argmin_q {sum_j q_j values_j : sum_j q_j log(q_j / weights_j) <= radius}
        = weights exp(-values / multiplier), normalised

    Source: [Husain2023divergences]_, Theorem 1, whose dual has a closed form up to one multiplier.
    A search with a fixed number of steps brackets it. The two ends of the bracket are mixed so that
    the distribution is in the ball; its expectation exceeds the minimum by less than 1e-8 of the
    range of the values.

    Args:
        values: `... x n_w` finite values.
        weights: The distribution at the centre, broadcastable to `... x n_w`, >= 0 with sum 1 (not
            checked). Points of weight 0 stay at 0.
        radius: The largest relative entropy, in nats. From a radius of `-log p` on, where p is the
            probability of the smallest value, that value receives all probability.

    Returns:
        Probabilities, `... x n_w`.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> kullback_leibler_worst_distribution(values, weights, radius=0.1)
        tensor([0.6877, 0.2210, 0.0913])
    """
    check_nonnegative(radius=radius)
    return _in_chunks(partial(_tilted_to, radius=radius), values, weights)


def _tilted_to(rows: Tensor, centre: Tensor, radius: float) -> Tensor:
    r"""`kullback_leibler_worst_distribution` of rows of values, each with its centre."""
    x, least = _of_the_support(rows, centre)
    if radius == 0:
        return centre
    certain = centre.where(least, 0.0)
    mass = certain.sum(dim=-1, keepdim=True)
    whole = -mass.log() <= radius

    def tilted(log_tilt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""A distribution, its divergence, and the slope of the divergence's logarithm."""
        tilt = log_tilt.exp()
        worst = centre * (-tilt * x).exp()  # the smallest x is 0, so that the sum is not
        total = worst.sum(dim=-1, keepdim=True)
        weighted = worst * x
        mean = weighted.sum(dim=-1, keepdim=True) / total
        divergence = (-tilt * mean - total.log()).clamp_min(0.0)
        variance = (weighted * x).sum(dim=-1, keepdim=True) / total - mean.square()
        return worst / total, divergence, tilt.square() * variance / divergence

    # The variance is at most 1 / 4, so that a tilt of sqrt(8 radius) stays inside the ball, while
    # one of radius / gap, if it does, is as good as the best.
    start = math.log(8 * radius) / 2
    now = low = torch.full_like(mass, start)
    high = torch.full_like(mass, max(math.log(radius) - math.log(_TARGET_GAP), start + 1))
    for step in range(_STEPS):
        _, divergence, slope = tilted(now)
        inside = divergence <= radius
        low, high = now.where(inside, low), high.where(inside, now)
        middle = (low + high) / 2
        # Near tilt 0 the logarithms of tilt and divergence are in proportion: Newton on them.
        newton = now + (radius / divergence).log() / slope
        fits = (newton > low) & (newton < high)
        now = middle if step % 4 == 3 else newton.where(fits, middle)
        if may_stop(x) and (whole | ((divergence - radius).abs() <= 1e-10 * radius)).all():
            break
    first, inner, _ = tilted(low)
    second, outer, _ = tilted(high)
    part = ((radius - inner) / (outer - inner)).where(outer > radius, 1.0)
    worst = torch.lerp(first, second, part.clamp(0.0, 1.0))
    return torch.where(whole, certain / mass, worst)


def chi_square_worst_distribution(values: Tensor, weights: Tensor, radius: float) -> Tensor:
    r"""The distribution with the smallest expectation in a chi-square ball around the weights.

        argmin_q {sum_j q_j values_j : sum_j (q_j - weights_j)^2 / weights_j <= radius}
        = weights max(threshold - values, 0), normalised

    Source: [Husain2023divergences]_, Theorem 1 and its chi-square example, whose
    `mean - sqrt(radius variance)` is the risk if no probability is 0. Otherwise one sort finds the
    zeros, and the mass m, the mean and the variance of the other points give the exact
    `risk = mean - sqrt(variance (m (1 + radius) - 1))`.

    Args:
        values: `... x n_w`; these and the weights are as in `kullback_leibler_worst_distribution`.
        weights: The distribution at the centre, broadcastable to `... x n_w`.
        radius: The largest divergence. From a radius of `1 / p - 1` on, where p is the probability
            of the smallest value, that value receives all probability.

    Returns:
        Probabilities, `... x n_w`.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> chi_square_worst_distribution(values, weights, radius=0.2)
        tensor([0.6826, 0.2500, 0.0674])
    """
    check_nonnegative(radius=radius)
    return _in_chunks(partial(_cut_to, radius=radius), values, weights)


def _cut_to(rows: Tensor, centre: Tensor, radius: float) -> Tensor:
    r"""`chi_square_worst_distribution` of rows of values, each with its centre."""
    x, _ = _of_the_support(rows, centre)
    ascending, order = x.sort(dim=-1)
    mass = centre.gather(-1, order).cumsum(dim=-1)
    # Moments of `threshold - x` below it at the threshold of each value, added up from the steps
    # between values: sums of terms >= 0, in which no digits cancel.
    step, before = ascending.diff(dim=-1), mass[..., :-1]
    first = _from_zero(before * step)
    second = _from_zero(step * (2 * first[..., :-1] + before * step))
    # A value has probability if the threshold that the radius allows lies above it.
    has = second > (1 + radius) * first.square()
    has = x <= ascending.where(has, 0.0).amax(dim=-1, keepdim=True)

    kept = centre.where(has, 0.0)
    mass = kept.sum(dim=-1, keepdim=True)
    kept = kept / mass
    away = x - (kept * x).sum(dim=-1, keepdim=True)
    deviation = (kept * away.square()).sum(dim=-1, keepdim=True).sqrt()
    room = (mass * (1 + radius) - 1).clamp_min(0.0).sqrt()
    tilt = (room / deviation).where(deviation > 0, 0.0)
    worst = kept * (1 - tilt * away).clamp_min(0.0)
    return worst / worst.sum(dim=-1, keepdim=True)


def _from_zero(steps: Tensor) -> Tensor:
    r"""Sums of the steps so far, which begin with 0."""
    return torch.nn.functional.pad(steps.cumsum(dim=-1), (1, 0))


def _of_the_support(rows: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    r"""Values scaled to [0, 1], and a mask of the smallest; 0 and False outside the support."""
    inside = centre > 0
    lowest = rows.where(inside, torch.inf).amin(dim=-1, keepdim=True)
    x = from_zero_to_one(rows.where(inside, lowest))
    return x, inside & (x == 0)


def _in_chunks(
    function: Callable[[Tensor, Tensor], Tensor], values: Tensor, weights: Tensor
) -> Tensor:
    r"""Apply a function of finite rows of values and their centres in chunks."""
    return of_finite_rows(
        lambda finite: _all_in_chunks(function, finite, weights), as_floating(values)
    )


def _all_in_chunks(
    function: Callable[[Tensor, Tensor], Tensor], values: Tensor, weights: Tensor
) -> Tensor:
    rows, centre = centred(values, weights)
    n_w = rows.shape[-1]
    size = _CHUNK.rows(rows.device, n_w)
    if rows.numel() <= size * n_w:
        return function(rows, centre).to(values)
    parts = (each.reshape(-1, n_w).split(size) for each in (rows, centre))
    found = [function(*part) for part in zip(*parts, strict=True)]
    return torch.cat(found).reshape(rows.shape).to(values)


@dataclass(frozen=True)
class KullbackLeiblerBall(Ball):
    r"""The worst expectation over distributions within a relative entropy of the weights.

    See `kullback_leibler_worst_distribution`. Radius 0 is the expectation; from
    `-log(smallest weight)` on it is the worst case over the support.

    Args:
        radius: The largest relative entropy of the distribution to the weights, in nats.

    Example:
        >>> measure = KullbackLeiblerBall(radius=0.1)
        >>> measure(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25]))
        tensor(1.4949)
    """

    radius: float

    def worst_distribution(self, values: Tensor, weights: Tensor) -> Tensor:
        return kullback_leibler_worst_distribution(values, weights, self.radius)

    def distance(self, weights: Tensor, others: Tensor) -> Tensor:
        r"""The relative entropy of the others to the weights; infinite outside their support."""
        others, weights = as_floating(others), as_floating(weights)
        others, weights = torch.broadcast_tensors(others, weights.to(others))
        # Far from all values the weights of a density are so small that one becomes 0 before the
        # other does. What they would add is nothing.
        others = others.where(others > torch.finfo(others.dtype).tiny ** 0.3, 0.0)
        # `xlogy` is 0 for a probability of 0, and leaves infinity outside the support of the
        # weights.
        return (torch.special.xlogy(others, others) - torch.special.xlogy(others, weights)).sum(-1)


@dataclass(frozen=True)
class ChiSquareBall(Ball):
    r"""The worst expectation over distributions within a chi-square divergence of the weights.

    See `chi_square_worst_distribution`. Radius 0 is the expectation; from
    `1 / (smallest weight) - 1` on it is the worst case over the support.

    Args:
        radius: The largest divergence of the distribution from the weights.

    Example:
        >>> measure = ChiSquareBall(radius=0.2)
        >>> measure(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25]))
        tensor(1.4523)
    """

    radius: float

    def worst_distribution(self, values: Tensor, weights: Tensor) -> Tensor:
        return chi_square_worst_distribution(values, weights, self.radius)

    def distance(self, weights: Tensor, others: Tensor) -> Tensor:
        r"""The chi-square divergence of the others; infinite outside the support of the weights."""
        others, weights = as_floating(others), as_floating(weights)
        square = (others - weights).square()
        return (square / weights).where(square > 0, 0.0).sum(dim=-1)
