r"""Confidence widths of the epochs of truncated variance reduction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PracticalWidth:
    r"""The squared confidence width of the experiments of [Bogunovic2016truvar]_, Sec. 4.

        beta_(i) = a log(|D| t_(i)^2)

    where the epoch i starts with sample `t_(i)`, counted from 1, initial data included.

    Attributes:
        a: 0.5 for optimisation and 1 for level sets in the paper; 2 has the form of Eq. (14).

    Raises:
        ValueError: If `a` is not positive and finite.

    Example:
        >>> first = torch.tensor(1)
        >>> PracticalWidth(0.5).beta(epoch=first, start=first, domain_size=100)
        tensor(2.3026, dtype=torch.float64)
    """

    a: float

    def __post_init__(self) -> None:
        if not 0 < self.a < math.inf:
            raise ValueError(f"Expected `a` to be finite and > 0. Got {self.a}.")

    def beta(self, epoch: Tensor, start: Tensor, domain_size: int) -> Tensor:
        r"""The squared width in each replicate's epoch, float64."""
        return self.a * (math.log(domain_size) + 2 * start.double().log())


@dataclass(frozen=True)
class GuaranteedWidth:
    r"""The squared confidence width of Theorem 3.1 of [Bogunovic2016truvar]_, Eq. (14).

        beta_(i) = 2 log(|D| (C_(1) + .. + C_(i))^2 pi^2 / (6 delta c_min^2))

    The bounds hold with probability `1 - delta` as long as epoch i costs at most `C_(i)`. The
    paper does not say how to find such values, since Eq. (13) asks for the true function;
    here they are given, and the last one stands for all further epochs.

    Attributes:
        delta: Probability, in (0, 1), that some bound fails.
        epoch_costs: `C_(1), C_(2), ...`, each > 0.
        min_cost: The least cost of a sample, > 0.

    Raises:
        ValueError: If `delta` is outside (0, 1), a cost is not positive and finite, or no epoch has
            one.

    Example:
        >>> first = torch.tensor(1)
        >>> GuaranteedWidth(0.1, epoch_costs=(5.0,)).beta(first, first, domain_size=100)
        tensor(21.2487, dtype=torch.float64)
    """

    delta: float
    epoch_costs: tuple[float, ...]
    min_cost: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError(f"Expected `delta` in (0, 1). Got {self.delta}.")
        costs = (*self.epoch_costs, self.min_cost)
        if len(costs) < 2 or not all(0 < cost < math.inf for cost in costs):
            raise ValueError(
                "Expected finite `epoch_costs` and `min_cost` > 0, at least one epoch. "
                f"Got {self.epoch_costs=}, {self.min_cost=}."
            )

    def beta(self, epoch: Tensor, start: Tensor, domain_size: int) -> Tensor:
        r"""The squared width in each replicate's epoch, float64."""
        costs = torch.tensor(self.epoch_costs, dtype=torch.float64, device=epoch.device)
        known = epoch.clamp_max(len(costs))
        total = costs.cumsum(dim=0)[known - 1] + (epoch - known) * costs[-1]
        constant = domain_size * math.pi**2 / (6 * self.delta * self.min_cost**2)
        return 2 * (math.log(constant) + 2 * total.log())  # Eq. (14)
