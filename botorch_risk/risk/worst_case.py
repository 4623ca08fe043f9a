r"""The worst case, which depends on no probability except whether it is 0."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_kind
from botorch_risk.risk.measure import PickingRiskMeasure

Points = Literal["support", "points"]


@dataclass(frozen=True)
class WorstCase(PickingRiskMeasure):
    r"""The smallest value, as in robust optimisation [Bogunovic2018stableopt]_.

    Args:
        over: `"support"` leaves out points of weight 0; `"points"` includes them, as a ball of
            distributions around the weights does.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 0.5, 0.5])
        >>> WorstCase()(values, weights), WorstCase(over="points")(values, weights)
        (tensor(2.), tensor(1.))
    """

    over: Points = "support"

    def __post_init__(self) -> None:
        check_kind(Points, over=self.over)

    def importance(self, weights: Tensor) -> Tensor:
        r"""All values count equally, whatever their weights."""
        return even_weights(torch.ones_like(weights) if self.over == "points" else weights)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        if values.requires_grad:
            return super()._evaluate(values, weights)
        # Value-at-risk as its level goes to 0, Theorem 2 and Corollary 2.1 of [Nguyen2021vucb]_.
        return self._counted(values, weights).amin(dim=-1)  # `argmin` takes seven times as long

    def _index(self, values: Tensor, weights: Tensor) -> Tensor:
        return self._counted(values, weights).argmin(dim=-1)

    def _counted(self, values: Tensor, weights: Tensor) -> Tensor:
        return values if self.over == "points" else values.masked_fill(weights <= 0, torch.inf)

    def _index_on_host(self, values: ndarray, weights: ndarray) -> ndarray:
        if self.over == "support":
            values = np.where(weights > 0, values, np.inf)
        index: ndarray = values.argmin(axis=-1)
        return index


def even_weights(weights: Tensor) -> Tensor:
    r"""The same weight for every value of the support, `... x n_w`."""
    even = (weights > 0).to(weights)
    return even / even.sum(dim=-1, keepdim=True)
