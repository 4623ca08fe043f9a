r"""Strategies that sample a finite domain and keep its joint posterior up to date."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.sampling_terms import Cost, Noise, NoiseLevels, SamplingTerms
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.domain_arguments import check_domain
from botorch_risk.seeding import generators
from botorch_risk.strategies.replicated import ReplicatedStrategy, as_data

ModelBuilder = Callable[[Tensor, Tensor, Tensor | None], Model]


class FiniteDomainStrategy(ReplicatedStrategy):
    r"""A strategy on the points of a finite domain.

    `ask` starts with random points of the domain and then returns `R x q x d` points of it, with
    the noise level in one more, last column if there are levels. NaN rows ask for nothing: the
    replicate is finished, or its batch has ended short. They are told as NaN, like outcomes that
    failed. The model is built of all data at first and every `refit_every` rounds; samples in
    between are rank-one updates of the posterior. A row that is missing when the model is built
    enters as a copy of a known one with a large noise, or, where the noise is inferred, counts
    the known one twice; it is no sample. The point of highest posterior mean is recommended.
    """

    def __init__(
        self,
        domain: Tensor,
        seeds: int | Sequence[int],
        build_model: ModelBuilder,
        *,
        num_initial: int = 1,
        batch_size: int = 1,
        noise: Noise | None = None,
        levels: NoiseLevels | None = None,
        cost: Cost | None = None,
        initial_level: int = 0,
        refit_every: int | None = None,
        dense: bool = True,
    ) -> None:
        r"""Builds the strategy.

        Args:
            domain: `|D| x d` points.
            seeds: One seed per replicate.
            build_model: From points `R x n x d`, outcomes `R x n x 1` and their noise variances
                (`None` if the noise is inferred) to an exact GP of batch shape `[R]`, fitted or
                with known hyperparameters.
            num_initial: The number of random points at the start.
            batch_size: The most points of a later round.
            noise: The known noise variance of an outcome; inferred by the model if `None`.
            levels: Noise levels to choose from.
            cost: What a sample costs.
            initial_level: The noise level of the initial points.
            refit_every: After how many rounds the model is built anew; never by default, as for
                known hyperparameters.
            dense: Whether the posterior holds the covariance of the domain.

        Raises:
            ValueError: If a number is out of its range, or there are fewer points than
                `num_initial`.
        """
        domain = as_data(domain)
        check_domain(domain, torch.Size())
        self.domain, self.build_model, self.dense = domain, build_model, dense
        self.terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
        if not 0 <= initial_level < self.terms.num_levels:
            raise ValueError(
                f"Expected `initial_level` in 0, .., {self.terms.num_levels - 1}. "
                f"Got {initial_level}."
            )
        if num_initial > len(domain) or (refit_every is not None and refit_every < 1):
            raise ValueError(
                f"Expected `num_initial` of at most {len(domain)} points and `refit_every` of at "
                f"least 1. Got {num_initial=}, {refit_every=}."
            )
        bounds = torch.stack([domain.amin(dim=-2), domain.amax(dim=-2)])
        super().__init__(bounds, seeds, num_initial, batch_size)
        self.initial_level, self.refit_every = initial_level, refit_every
        self.cost = torch.zeros(len(self.seeds), dtype=torch.float64, device=domain.device)
        self._previous: Tensor | None = None  # R x d
        self._fitted = 0, 0  # rows and rounds
        self._posterior: DomainPosterior | None = None

    @property
    def posterior(self) -> DomainPosterior:
        r"""The posterior of all data so far."""
        self._observed()
        if self._posterior is None:
            self._posterior = self._fit(self._fitted[0])
            self._observe(self._fitted[0])
        return self._posterior

    def ask(self) -> Tensor:
        r"""Random points of the domain, then `R x batch_size x d` points a round."""
        if self._round > 0:
            return super().ask()
        picks = [
            torch.randperm(len(self.domain), generator=generator)[: self.num_initial]
            for generator in generators(self.seeds, "initial points")
        ]
        X = self.domain[torch.stack(picks).to(self.domain.device)]
        if self.terms.levels is None:
            return X
        return torch.cat([X, torch.full_like(X[..., :1], self.initial_level)], dim=-1)

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes; nothing is changed if they are refused.

        Args:
            X: The sampled points, `R x q x d`, with levels if any; NaN where there is none.
            Y: Their repeats, `R x q x k`. NaN marks a missing repeat.

        Raises:
            InputDataError: If a point is not in the domain.
            ValueError: If a level or a cost is out of its range.
        """
        self._validate(X, Y)
        points, level, _ = self._places(as_data(X).to(self.bounds))
        paid = self.terms.cost_of(points, level, self._previous)
        rows, start = self._X.shape[-2], self._posterior
        super().tell(X, Y)
        self.cost = self.cost + paid.sum(dim=-1)
        for x in points.unbind(dim=-2):
            known = x if self._previous is None else self._previous
            self._previous = x.where(x.isfinite(), known)
        due = self.refit_every is not None and self._round - self._fitted[1] >= self.refit_every
        if rows == 0 or due:
            self._fitted = self._X.shape[-2], self._round
            self._posterior = None
        elif start is not None:
            self._observe(rows)
        self._learn(paid.sum(dim=-1))

    def recommend(self) -> Tensor:
        r"""The point of highest posterior mean of each replicate, `R x d`."""
        return self.domain[self.posterior.mean.argmax(dim=-1)]

    def state_dict(self) -> dict[str, Any]:
        r"""The data, the cost and when the model was built."""
        more = {"cost": self.cost, "previous": self._previous, "fitted": self._fitted}
        return {**super().state_dict(), **more}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments."""
        super().load_state_dict(state)
        self.cost, self._previous = state["cost"], state["previous"]
        rows, rounds = state["fitted"]
        self._fitted, self._posterior = (int(rows), int(rounds)), None

    @abstractmethod
    def _learn(self, paid: Tensor) -> None:
        r"""Takes note of a round whose samples cost `R` units."""

    @property
    def _num_inputs(self) -> int:
        return self.domain.shape[-1] + (self.terms.levels is not None)

    def _check_points(self, X: Tensor) -> None:
        self._places(X)

    def _places(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Points `R x q x d`, levels and places in the domain `R x q`, -1 where missing."""
        missing = X.isnan().any(dim=-1)
        filled = X.where(~missing.unsqueeze(-1), 0.0)
        points, level = self.terms.split(filled, self.domain.shape[-1])
        same = (points.unsqueeze(-2) == self.domain).all(dim=-1)  # R x q x |D|
        outside = ~missing & ~same.any(dim=-1)
        if bool(outside.any()):
            raise InputDataError(
                f"Expected points of the domain. Got {points[outside][:3].tolist()}."
            )
        place = same.to(torch.uint8).argmax(dim=-1).where(~missing, -1)
        return points.where(~missing.unsqueeze(-1), torch.nan), level, place

    def _samples(self, first: int, last: int | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        r"""Places, mean outcomes (NaN where missing) and known noise of some rows, `R x n`."""
        _, level, place = self._places(self._X[:, first:last])
        Y = self._observed()[1][:, first:last]
        noise = self.terms.known_noise(self.domain[place], place)
        if noise is not None:
            shape = (*place.shape, self.terms.num_levels)
            noise = noise.expand(shape).gather(-1, level.unsqueeze(-1)).squeeze(-1)
            noise = noise / Y.isfinite().sum(dim=-1).clamp_min(1)
        return place, Y.nanmean(dim=-1), noise

    def _observe(self, first: int) -> None:
        r"""Rank-one updates by the rows from `first` on."""
        place, y, noise = self._samples(first)
        for row in range(place.shape[-1]):
            variance = None if noise is None else noise[:, row]
            self.posterior.observe(place[:, row].clamp_min(0), y[:, row], variance)

    def _fit(self, rows: int) -> DomainPosterior:
        r"""The posterior of a model of the first rows."""
        place, y, noise = self._samples(0, rows)
        missing = y.isnan()
        known = (~missing).to(torch.uint8).argmax(dim=-1, keepdim=True)
        y = y.where(~missing, y.gather(-1, known))
        place = place.where(~missing, place.gather(-1, known)).clamp_min(0)
        if noise is not None:
            large = 1e8 * (noise.amax() + y.square().amax())
            noise = noise.where(~missing, large).unsqueeze(-1)
        model = self.build_model(self.domain[place], y.unsqueeze(-1), noise)
        return DomainPosterior(model, self.domain, dense=self.dense, observed=~missing)
