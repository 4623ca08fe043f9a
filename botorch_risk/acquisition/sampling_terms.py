r"""On what terms a point can be sampled: its noise, its price, the choice between noise levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.models.domain import DomainPosterior
from botorch_risk.models.domain_arguments import check_noise

Noise = float | Tensor | Callable[[Tensor], Tensor]


class Cost(Protocol):
    r"""What a sample costs, given where the last one was taken.

    Example:
        >>> def travel(X, previous, level):
        ...     depth = 4 * (X[..., 1].abs() + 1)
        ...     if previous is None:  # no travel before the first sample
        ...         return depth
        ...     return depth + 0.25 * (X[..., 0] - previous[..., 0]).abs()
        >>> travel(torch.zeros(3, 2), torch.ones(1, 2), None)
        tensor([4.2500, 4.2500, 4.2500])
    """

    def __call__(self, X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
        r"""Costs, finite and > 0.

        Args:
            X: `batch_shape x m x d` points.
            previous: `batch_shape x 1 x d`, the last point sampled; `None` before the first.
            level: The number of the noise level, from 0; `None` if there is no choice.

        Returns:
            `batch_shape x m` costs, or what broadcasts to them.
        """
        ...


@dataclass(frozen=True)
class NoiseLevels:
    r"""Noise variances to choose from, and what they cost (Corollary 3.2 of TRUVAR).

    The domain is then `D_0 x {0, .., K - 1}`; the sets stay subsets of `D_0`.

    Attributes:
        variances: `K` noise variances >= 0, squared units of the outcome.
        costs: `K` costs > 0; `None` if a cost function knows the levels.
    """

    variances: tuple[float, ...]
    costs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.variances or not all(0 <= v < math.inf for v in self.variances):
            raise ValueError(f"Expected finite noise variances >= 0. Got {self.variances}.")
        if self.costs is None:
            return
        if len(self.costs) != len(self.variances):
            raise ValueError(
                "Expected a cost for each noise level. "
                f"Got {len(self.costs)} costs for {len(self.variances)} levels."
            )
        if not all(0 < cost < math.inf for cost in self.costs):
            raise ValueError(f"Expected finite costs > 0. Got {self.costs}.")

    def __len__(self) -> int:
        return len(self.variances)


@dataclass(frozen=True)
class SamplingTerms:
    r"""Noise and cost of candidates, at every level if there is a choice.

    Attributes:
        noise: The known noise variance: a number, `|D|` values on the domain, or a function from
            `... x m x d` points to `... x m` values. `None` is the noise inferred by the model.
        levels: Noise levels, in the place of `noise`.
        cost: The cost function; 1 for every sample, or the cost of the level, if `None`.
    """

    noise: Noise | None = None
    levels: NoiseLevels | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        if self.levels is not None and self.noise is not None:
            raise ValueError("Expected either `noise` or `levels`. Got both.")
        if self.levels is not None and self.levels.costs is None and self.cost is None:
            raise ValueError(
                f"Expected costs of the {len(self.levels)} noise levels, or a `cost` function. "
                "Got neither."
            )

    @property
    def num_levels(self) -> int:
        r"""The number K of choices at a point."""
        return 1 if self.levels is None else len(self.levels)

    def domain_noise(self, posterior: DomainPosterior) -> Tensor:
        r"""Noise variances on the domain, `B x |D| x K`."""
        if isinstance(self.noise, Tensor) and self.noise.dim() > 0:
            size, noise = posterior.domain.shape[-2], self.noise.to(posterior.domain)
            if noise.shape[-1] != size:
                raise BotorchTensorDimensionError(
                    f"Expected `noise` on the domain, {size} values. Got {noise.shape=}."
                )
            check_noise(noise, posterior.prior_variance)
            return noise.expand(posterior.batch_shape.numel(), size).unsqueeze(-1)
        return self.noise_at(posterior.domain, posterior)

    def noise_at(self, X: Tensor, posterior: DomainPosterior) -> Tensor:
        r"""Noise variances at `m x d` or `B x m x d` points, `B x m x K`."""
        shape = (posterior.batch_shape.numel(), X.shape[-2], self.num_levels)
        if self.levels is not None:
            noise = X.new_tensor(self.levels.variances)
        elif self.noise is None:
            inferred = posterior.inferred_noise(X)
            if inferred is None:
                raise ValueError(
                    "Expected `noise` or `levels`, as the noise of the model is fixed. Got neither."
                )
            noise = inferred.unsqueeze(-1)
        elif callable(self.noise):
            noise = self.noise(X).unsqueeze(-1)
        else:
            noise = torch.as_tensor(self.noise, dtype=X.dtype, device=X.device)
            if noise.dim() > 0:
                raise ValueError(
                    "Expected `noise` as a function of the point, for points off the domain. "
                    f"Got {noise.shape[-1]} values on the domain."
                )
        check_noise(noise.detach(), posterior.prior_variance)
        return noise.expand(shape)

    def cost_at(self, X: Tensor, previous: Tensor | None) -> Tensor:
        r"""Costs of sampling `m x d` or `B x m x d` points, `m x K` or `B x m x K`.

        Raises:
            ValueError: If a cost is not finite or not above 0.
        """
        if self.cost is None:
            costs = (
                (1.0,) if self.levels is None or self.levels.costs is None else self.levels.costs
            )
            return X.new_tensor(costs).expand(*X.shape[:-1], -1)
        levels = [None] if self.levels is None else range(len(self.levels))
        cost = torch.stack(
            [self.cost(X, previous, level).expand(X.shape[:-1]) for level in levels], dim=-1
        )
        bad = ~(cost.isfinite() & (cost > 0))
        if bool(bad.any()):
            where = tuple(bad.nonzero()[0].tolist())
            raise ValueError(
                f"Expected finite costs > 0. Got {cost[where].item()} at {X[where[:-1]].tolist()}."
            )
        return cost
