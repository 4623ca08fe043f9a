r"""Noise and cost of samples, and the choice between noise levels."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import as_floating, first_index, in_short
from botorch_risk.engine import DomainPosterior

Noise = float | Tensor | Callable[[Tensor], Tensor]


@runtime_checkable
class Cost(Protocol):
    r"""The cost of a sample, given the location of the last one.

    `c(x)` in Eq. (3) of [Bogunovic2016truvar]_; as in its Sec. 4 it may depend on the last point.
    """

    def __call__(self, X: Tensor, previous: Tensor | None, level: int | None) -> Tensor | float:
        r"""Costs, finite and > 0.

        Args:
            X: `batch_shape x m x d` points.
            previous: `batch_shape x 1 x d`, the last point sampled; `None` before the first.
            level: The number of the noise level, from 0; `None` if there is no choice.

        Returns:
            `batch_shape x m` costs, or what broadcasts to them, such as one number for all.
        """
        ...


@dataclass(frozen=True)
class NoiseLevels:
    r"""Noise variances to choose from, and their costs, Corollary 3.2 of [Bogunovic2016truvar]_.

    The domain is then `D_0 x {0, .., K - 1}`; the sets are still subsets of `D_0`.

    Attributes:
        variances: `K` noise variances >= 0, in squared units of the outcome.
        costs: `K` costs > 0; `None` if a cost function takes the level.
    """

    variances: tuple[float, ...]
    costs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, values in {"variances": self.variances, "costs": self.costs}.items():
            if values is not None:
                numbers = as_floating(values, name)
                if numbers.dim() != 1:
                    raise ValueError(f"Expected a list of `{name}`. Got {values!r}.")
                object.__setattr__(self, name, tuple(numbers.tolist()))
        if not self.variances or not all(0 <= v < math.inf for v in self.variances):
            got = in_short(self.variances)
            raise ValueError(f"Expected finite noise variances >= 0. Got {got}.")
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
            `... x m x d` points to `... x m` values. `None` means the noise inferred by the model.
        levels: Noise levels, instead of `noise`.
        cost: The cost function; `None` if a sample costs 1, or what its level costs.

    Raises:
        ValueError: If the noise or the cost is given twice, or levels have no costs.
    """

    noise: Noise | None = None
    levels: NoiseLevels | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        if self.levels is not None and self.noise is not None:
            raise ValueError("Expected either `noise` or `levels`. Got both.")
        if self.noise is not None and not callable(self.noise):
            if not isinstance(self.noise, int | float):
                # A copy: what the user writes into the tensor later must not change a decision.
                object.__setattr__(self, "noise", as_floating(self.noise, "noise").clone())
            as_nonnegative("noise", self.noise)
        if self.levels is not None and (self.levels.costs is None) == (self.cost is None):
            raise ValueError(
                f"Expected either costs of the {len(self.levels)} noise levels or a `cost` "
                f"function. Got {'neither' if self.cost is None else 'both'}."
            )

    @property
    def num_levels(self) -> int:
        r"""The number K of choices at a point."""
        return 1 if self.levels is None else len(self.levels)

    def split(self, X: Tensor, d: int) -> tuple[Tensor, Tensor]:
        r"""Points `... x m x d` and levels `... x m` of `X`, whose last column may be the level."""
        columns = d + (self.levels is not None)
        if X.shape[-1] != columns:
            raise BotorchTensorDimensionError(
                f"Expected `X` to have {columns} columns, with the noise level in the last if "
                f"there are levels. Got {X.shape=}."
            )
        if self.levels is None:
            return X, torch.zeros_like(X[..., 0], dtype=torch.long)
        # A level is a label: no gradient goes through it.
        level = X[..., -1].detach()
        known = (level.frac() == 0) & (level >= 0) & (level < self.num_levels)
        if not bool(known.all()):
            raise ValueError(
                f"Expected noise levels in 0, .., {self.num_levels - 1} in the last column of "
                f"`X`. Got {level[~known][:3].tolist()}."
            )
        return X[..., :-1], level.long()

    def known_noise(self, X: Tensor, row: Tensor | None = None) -> Tensor | None:
        r"""Noise variances that are known in advance, broadcastable to `... x m x K`.

        Args:
            X: `... x m x d` points.
            row: Their rows in the domain, `... x m`, if they are all in it.

        Returns:
            The variances; `None` if the noise is inferred by the model.

        Raises:
            ValueError: If the noise is known on the domain only and the rows are not given.
        """
        if self.levels is not None:
            # `K` values, the same at every point, broadcast over `... x m`.
            return X.new_tensor(self.levels.variances)
        if self.noise is None:
            return None
        if callable(self.noise):
            return self.noise(X).unsqueeze(-1)
        noise = torch.as_tensor(self.noise, dtype=X.dtype, device=X.device)
        if noise.dim() == 0:
            return noise
        if row is None:
            raise ValueError(
                "Expected `noise` as a function of the point, for points off the domain. "
                f"Got {noise.shape[-1]} values on the domain."
            )
        return noise[row].unsqueeze(-1)

    def domain_noise(self, posterior: DomainPosterior) -> Tensor:
        r"""Noise variances on the domain, `B x |D| x K`."""
        size = posterior.domain.shape[-2]
        # Checked here, as picking rows would accept a list that is too long.
        if isinstance(self.noise, Tensor) and self.noise.shape not in ((), (size,)):
            raise BotorchTensorDimensionError(
                f"Expected `noise` on the domain, {size} values. Got {self.noise.shape=}."
            )
        row = torch.arange(size, device=posterior.domain.device)
        return self.noise_at(posterior.domain, posterior, row)

    def noise_at(self, X: Tensor, posterior: DomainPosterior, row: Tensor | None = None) -> Tensor:
        r"""Noise variances at `m x d` or `B x m x d` points, `B x m x K`, checked.

        The unit is the posterior's variance: a `posterior_transform` scales known noise too.
        """
        noise = self.known_noise(X, row)
        if noise is None:
            inferred = posterior.inferred_noise(X)
            if inferred is None:
                raise ValueError(
                    "Expected `noise` or `levels`, as the noise of the model is fixed. Got neither."
                )
            noise = inferred.unsqueeze(-1)
        else:
            noise = posterior.units.noise_factor * noise  # a weight w scales variances by w^2
        DomainPosterior.check_noise(noise.detach(), posterior.prior_variance)
        return noise.expand(posterior.batch_shape.numel(), X.shape[-2], self.num_levels)

    def noise_of(self, X: Tensor, level: Tensor, posterior: DomainPosterior) -> Tensor:
        r"""Noise variances `B x m` at `B x m x d` points and their levels `B x m`."""
        return self.noise_at(X, posterior).gather(-1, level.unsqueeze(-1)).squeeze(-1)

    def hallucinate(self, posterior: DomainPosterior, X: Tensor) -> DomainPosterior:
        r"""A copy of the posterior after samples equal to its mean; only variances change.

        Args:
            posterior: The posterior over the domain, which is not changed.
            X: `batch_shape x n' x d` points, one after the other, with levels if any.
        """
        trial, d = posterior.copy(), posterior.domain.shape[-1]
        X = X.expand(*trial.batch_shape, *X.shape[-2:])
        for point in X.unbind(dim=-2):  # each a rank-one update, given the ones before
            x, level = self.split(point.unsqueeze(-2), d)
            noise = self.noise_of(x.reshape(-1, *x.shape[-2:]), level.reshape(-1, 1), trial)
            trial.hallucinate(x, noise)
        return trial

    def cost_of(self, X: Tensor, level: Tensor, previous: Tensor | None) -> Tensor:
        r"""The costs of samples taken one after the other.

        Args:
            X: `R x q x d` points, NaN where none was taken.
            level: `R x q` noise levels.
            previous: `R x d`, the last point before them; `None` if there was none.

        Returns:
            `R x q` costs, 0 where no sample was taken.
        """
        paid = []
        for x, its_level in zip(X.unbind(dim=-2), level.unbind(dim=-1), strict=True):
            taken = x.isfinite().all(dim=-1, keepdim=True)
            # A cost function never sees NaN: who takes no sample stays where it was, at no cost.
            filled = x.where(taken, X.nan_to_num()[:, 0] if previous is None else previous)
            last = None if previous is None else previous.unsqueeze(-2)
            cost = self.cost_at(filled.unsqueeze(-2), last).squeeze(-2)
            paid.append(cost.gather(-1, its_level.unsqueeze(-1)).where(taken, 0.0).squeeze(-1))
            previous = filled
        return torch.stack(paid, dim=-1)

    def cost_at(self, X: Tensor, previous: Tensor | None) -> Tensor:
        r"""Costs of sampling `m x d` or `B x m x d` points, `m x K` or `B x m x K`."""
        if self.cost is None:
            costs = (1.0,) if self.levels is None else self.levels.costs
            return X.new_tensor(costs).expand(*X.shape[:-1], -1)
        levels = [None] if self.levels is None else range(len(self.levels))
        each = [as_floating(self.cost(X, previous, level), "cost").to(X) for level in levels]
        # A cost function may return one number for all points.
        cost = torch.stack([value.expand(X.shape[:-1]) for value in each], dim=-1)
        bad = ~(cost.isfinite() & (cost > 0))
        if bool(bad.any()):
            where = first_index(bad)
            raise ValueError(
                f"Expected finite costs > 0. Got {cost[where].item()} at {X[where[:-1]].tolist()}."
            )
        return cost
