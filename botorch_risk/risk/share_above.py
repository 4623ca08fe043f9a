r"""The probability that an outcome exceeds a threshold."""

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_risk.arguments import check_finite
from botorch_risk.risk.measures import RiskMeasure


@dataclass(frozen=True)
class ShareAbove(RiskMeasure):
    r"""The share of W whose outcome lies above a threshold.

        risk = P(values > threshold)

    A probability, whatever the unit of the outcome. As a function of the values it is a staircase:
    its gradient is 0, and no acquisition function can climb it. Its expectation under normal values
    is smooth:

        E[risk] = sum_j weights_j Phi((mean_j - threshold) / sigma_j)

    and the gradient in the mean says how much a reading at each w tells of it, so that
    `select_value` and the rules of finite tables need no samples.

    Args:
        threshold: In the unit of the outcome; a value that equals it is not above.

    Raises:
        ValueError: If the threshold is not finite.

    Example:
        >>> values, weights = torch.tensor([0.2, 0.6, 0.9]), torch.tensor([0.5, 0.25, 0.25])
        >>> ShareAbove(threshold=0.6)(values, weights)
        tensor(0.2500)
    """

    threshold: float

    def __post_init__(self) -> None:
        check_finite(threshold=self.threshold)

    def expected(self, mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor:
        deviation = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        above = torch.special.ndtr((mean - self.threshold) / deviation)
        return (weights * above).sum(dim=-1)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        # `sign` has a gradient, 0 everywhere, which a comparison has not.
        return (weights * (values - self.threshold).sign().clamp_min(0.0)).sum(dim=-1)
