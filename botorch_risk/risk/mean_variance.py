r"""The mean minus a multiple of the variance over the environment."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_risk.arguments import check_nonnegative
from botorch_risk.risk.mean_variance_bounds import clipping_level, dual_solution
from botorch_risk.risk.measure import RiskMeasure
from botorch_risk.steady import may_look


@dataclass(frozen=True)
class MeanVariance(RiskMeasure):
    r"""The mean minus a multiple of the variance.

        risk = E[values] - risk_aversion * Var[values]

    Not monotone: raising the largest value may cost more variance than it gains. The risk of an
    upper bound is therefore not an upper bound; `bounds` gives valid ones. The variance is taken
    over the environment; Eq. (2) of [Makarova2021rahbo]_ has the variance of the observation noise
    instead.

    Args:
        risk_aversion: Weight of the variance, >= 0, in units of 1 / outcome.

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

        The upper bound is exact; it never exceeds the mean of `upper` minus `risk_aversion` times
        the smallest variance, whose two terms are attained at different values. The smallest risk
        is a combinatorial problem; the lower bound is its dual, exact up to splitting the
        probability of one point between its two ends.
        """
        if may_look(lower) and (upper < lower).any():
            raise ValueError(
                f"Expected `lower <= upper`. Got `lower` {(lower - upper).max().item()} larger."
            )
        if self.risk_aversion == 0:
            return self._evaluate(lower, weights), self._evaluate(upper, weights)
        # Points outside the support may be anything: they are put amid the others.
        lower, upper = (
            v.where(weights > 0, (weights * v).sum(dim=-1, keepdim=True)) for v in (lower, upper)
        )
        weights, half = weights.expand_as(lower), 0.5 / self.risk_aversion
        with torch.no_grad():
            level = clipping_level(lower, upper, weights, half)
            centre, part = dual_solution(lower, upper, weights, half)
        best = torch.minimum(torch.maximum(level, lower), upper)
        at_lower, at_upper = (
            v - self.risk_aversion * (v - centre).square() for v in (lower, upper)
        )
        pessimistic = (weights * torch.lerp(at_upper, at_lower, part)).sum(dim=-1)
        return pessimistic, self._evaluate(best, weights)
