r"""Mean minus weighted variance over the environment, and its range over boxes of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk.arguments import check_nonnegative
from botorch_risk.risk.measures import RiskMeasure


@dataclass(frozen=True)
class MeanVariance(RiskMeasure):
    r"""The mean minus a multiple of the variance.

        risk = E[values] - risk_aversion * Var[values]

    Not monotone: raising the largest value may cost more variance than it gains. The risk of an
    upper bound is therefore no upper bound; `bounds` gives valid ones. The variance is that over
    the environment, not that of the observation noise.

    Eq. (2) of [Makarova2021rahbo]_ has the variance of the observation noise in its place.

    Args:
        risk_aversion: Weight of the variance, >= 0, in units of one over the outcome.

    Raises:
        ValueError: If `risk_aversion` is negative or not finite.

    Example:
        >>> measure, weights = MeanVariance(risk_aversion=1.0), torch.tensor([0.5, 0.5])
        >>> measure(torch.tensor([1.0, 3.0]), weights)
        tensor(1.)
        >>> measure.bounds(torch.tensor([0.0, 2.0]), torch.tensor([2.0, 4.0]), weights)
        (tensor(-2.), tensor(2.2500))
    """

    monotone: ClassVar[bool] = False
    risk_aversion: float

    def __post_init__(self) -> None:
        check_nonnegative(risk_aversion=self.risk_aversion)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        mean = (weights * values).sum(dim=-1, keepdim=True)
        # Outside the support a square may be infinite, and 0 times it NaN.
        deviation = (values - mean).where(weights > 0, 0.0)
        variance = (weights * deviation.square()).sum(dim=-1)
        return mean.squeeze(-1) - self.risk_aversion * variance

    def _bounds(self, lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds of the risk of any values between `lower` and `upper`.

        With `Var[v] = min_c E[(v - c)^2]` and `h = 1 / (2 risk_aversion)`:

            upper: the maximum, attained by v = clip(c + h, lower, upper) with c = E[v]
            lower: max_c E[min over v in {lower, upper} of v - risk_aversion (v - c)^2]

        The upper bound is exact: never above the mean of `upper` minus `risk_aversion` times the
        smallest variance, which mean and variance attain at different values. The smallest risk is
        a combinatorial problem; the lower bound is its dual, exact up to dividing the probability
        of one point between its two ends.

        Raises:
            ValueError: If an upper bound lies below its lower bound.
        """
        if (upper < lower).any():
            raise ValueError(
                f"Expected `lower <= upper`. Got {(lower - upper).max().item()} above it."
            )
        if self.risk_aversion == 0:
            return self._evaluate(lower, weights), self._evaluate(upper, weights)
        # Points outside the support may be anything: they are put amid the others.
        lower, upper = (
            v.where(weights > 0, (weights * v).sum(dim=-1, keepdim=True)) for v in (lower, upper)
        )
        weights, half = weights.expand_as(lower), 0.5 / self.risk_aversion
        with torch.no_grad():
            level = _clipping_level(lower, upper, weights, half)
            centre, part = _dual_solution(lower, upper, weights, half)
        best = torch.minimum(torch.maximum(level, lower), upper)
        at_lower, at_upper = (
            v - self.risk_aversion * (v - centre).square() for v in (lower, upper)
        )
        pessimistic = (weights * torch.lerp(at_upper, at_lower, part)).sum(dim=-1)
        return pessimistic, self._evaluate(best, weights)


def _clipping_level(lower: Tensor, upper: Tensor, weights: Tensor, half: float) -> Tensor:
    r"""The t with `t - E[clip(t, lower, upper)] = half`, by sorting the kinks; `... x 1`."""
    kinks, order = torch.cat([lower, upper], dim=-1).sort(dim=-1)
    inside = torch.cat([weights, -weights], dim=-1).gather(-1, order).cumsum(dim=-1)[..., :-1]
    rise = (inside.clamp(0.0, 1.0) * kinks.diff(dim=-1)).cumsum(dim=-1)
    clipped = (weights * lower).sum(dim=-1, keepdim=True) + pad(rise, (1, 0))
    excess = (kinks - clipped).cummax(dim=-1).values  # non-decreasing in t
    last = torch.searchsorted(excess, torch.full_like(excess[..., :1], half), right=True) - 1
    last = last.clamp_min(0)
    slope = 1 - pad(inside, (0, 1)).gather(-1, last).clamp(0.0, 1.0)
    step = (half - excess.gather(-1, last)).clamp_min(0.0) / slope.clamp_min(1e-15)
    return kinks.gather(-1, last) + step


def _dual_solution(
    lower: Tensor, upper: Tensor, weights: Tensor, half: float
) -> tuple[Tensor, Tensor]:
    r"""The best c, `... x 1`, and which part of each probability sits at its lower end.

    The parts take the mean of the values to c, going through the points by their middles.
    """
    switches, order = ((lower + upper) / 2 - half).sort(dim=-1)  # values of c
    drops = (weights * (upper - lower)).gather(-1, order)
    before = drops.cumsum(dim=-1) - drops
    top = (weights * upper).sum(dim=-1, keepdim=True)
    means = top - pad(before + drops, (1, 0))  # one per interval between switches
    centre = torch.minimum(means, pad(switches, (0, 1), value=torch.inf))
    centre = centre.amax(dim=-1, keepdim=True)
    dropped = torch.minimum((top - centre - before).clamp_min(0.0), drops)
    part = dropped / drops.clamp_min(torch.finfo(drops.dtype).tiny)
    return centre, torch.zeros_like(part).scatter(-1, order, part)
