r"""The base class of measures that are worst cases over a ball of distributions."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from botorch_risk.arguments import as_floating, check_nonnegative
from botorch_risk.risk.measure import RiskMeasure


class Ball(RiskMeasure, ABC):
    r"""The worst expectation over the distributions within a given distance of the weights.

    It is concave in the values, and its gradient is the worst distribution (at a kink, one of
    several).

    Attributes:
        radius: The largest distance. At 0 the measure is the expectation.
    """

    radius: float

    def __post_init__(self) -> None:
        check_nonnegative(radius=self.radius)

    @abstractmethod
    def worst_distribution(self, values: Tensor, weights: Tensor) -> Tensor:
        r"""The distribution with the smallest expectation in the ball, `... x n_w`.

        It is NaN for a row with a value that is not finite. The weights, broadcastable to the
        values `... x n_w`, are the centre.
        """

    @abstractmethod
    def distance(self, weights: Tensor, others: Tensor) -> Tensor:
        r"""The distance of other distributions from the centre, in the unit of the radius, `...`.

        Args:
            weights: Distributions at the centre, `... x n_w`.
            others: Distributions on the same points, broadcastable to them.
        """

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        return (self.worst_distribution(values.detach(), weights) * values).sum(dim=-1)


def of_finite_rows(solve: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    r"""The distributions that `solve` finds for `values: ... x n_w`; NaN where a row has NaN."""
    missing = ~values.isfinite().all(dim=-1, keepdim=True)
    return solve(values.masked_fill(missing, 0.0)).masked_fill(missing, torch.nan)


def centred(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Values and weights in float64 without a graph and of one shape; the weights sum to 1."""
    values = as_floating(values).detach().double()
    weights = as_floating(weights, "weights").detach().to(values)
    return values, (weights / weights.sum(dim=-1, keepdim=True)).expand_as(values)


def from_zero_to_one(values: Tensor) -> Tensor:
    r"""Values minus the smallest, in units of their range; 0 if all are equal."""
    lowest = values.amin(dim=-1, keepdim=True)
    spread = values.amax(dim=-1, keepdim=True) - lowest
    return (values - lowest) / spread.where(spread > 0, 1.0)


def may_stop(values: Tensor) -> bool:
    r"""Whether a search may end early, which would make a GPU's host wait."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()
