r"""The share of W whose outcome lies above a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_risk.arguments import as_floating, check_finite, in_short
from botorch_risk.risk.expectation import Expectation
from botorch_risk.risk.measure import RiskMeasure


@dataclass(frozen=True)
class ShareAbove(RiskMeasure):
    r"""The share of W whose outcome lies above a threshold.

        risk = P(values > threshold)

    The result is a probability. With a ball as `under` it is the smallest probability in the ball,
    the distributionally robust threshold measure of [Inatsu2021drlse]_, Eq. (2.2). It is a step
    function of the values: its gradient is 0, so gradient ascent cannot climb it. Its expectation
    under normal values is smooth:

        E[risk] = sum_j weights_j Phi((mean_j - threshold) / sigma_j)

    and its gradient in the mean says how informative a reading at each w is, so `select_value` and
    the rules of finite tables need no samples. With a ball it is the smallest expected share over
    distributions that do not depend on the outcome. It is at least the expectation of the smallest
    share, and equals it once f is known.

    Args:
        threshold: In the unit of the outcome; a value equal to it does not count as above.
        under: The monotone measure of the indicators, `Expectation()` or a ball.

    Example:
        >>> from botorch_risk.risk import TotalVariationBall
        >>> values, weights = torch.tensor([0.2, 0.6, 0.9]), torch.tensor([0.5, 0.25, 0.25])
        >>> ShareAbove(threshold=0.5)(values, weights)
        tensor(0.5000)
        >>> ShareAbove(threshold=0.5, under=TotalVariationBall(0.2))(values, weights)
        tensor(0.4000)
    """

    in_unit_of_outcome: ClassVar[bool] = False
    threshold: float
    under: RiskMeasure = Expectation()  # noqa: RUF009 it is immutable

    def __post_init__(self) -> None:
        check_finite(threshold=self.threshold)
        if not isinstance(self.under, RiskMeasure):
            raise TypeError(f"Expected `under` to be a risk measure. Got {in_short(self.under)}.")
        if not self.under.monotone:
            raise ValueError(f"Expected a monotone measure as `under`. Got {self.under!r}.")

    @property
    def is_a_program(self) -> bool:  # type: ignore[override]
        return self.under.is_a_program

    def bind(self, environment: Any) -> ShareAbove:
        return self._over(self.under.bind(environment))

    def following(self, previous: RiskMeasure) -> RiskMeasure:
        if not isinstance(previous, ShareAbove):
            return self
        return self._over(self.under.following(previous.under))

    def _over(self, under: RiskMeasure) -> ShareAbove:
        return self if under is self.under else replace(self, under=under)

    def importance(self, weights: Tensor) -> Tensor:
        return self.under.importance(weights)

    def expected(self, mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor:
        mean, variance = as_floating(mean, "mean"), as_floating(variance, "variance")
        deviation = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        above = torch.special.ndtr((mean - self.threshold) / deviation)
        return self.under(above, weights)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        # `sign` has a gradient, 0 everywhere, which a comparison has not.
        return self.under._evaluate((values - self.threshold).sign().clamp_min(0.0), weights)
