r"""The expectation, which is neutral to risk."""

from dataclasses import dataclass

from numpy import ndarray
from torch import Tensor

from botorch_risk.risk.measure import RiskMeasure


@dataclass(frozen=True)
class Expectation(RiskMeasure):
    r"""The mean, neutral to risk: `risk = sum_j weights_j values_j`, Eq. (1) of [Huang2024kde]_."""

    def expected(self, mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor:
        return self(mean, weights)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        return (weights * values).sum(dim=-1)

    def _value_and_slope(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return self._evaluate(values, weights), weights.expand_as(values)

    def value_and_slope_on_host(self, values: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
        risk = (weights * values).sum(axis=-1)
        return risk, weights + 0.0 * risk[..., None]  # NaN in a row that is not finite
