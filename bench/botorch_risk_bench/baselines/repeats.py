r"""Baselines that choose the number of readings, for mean minus variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from botorch_risk.acquisition.mean_variance import RiskAverseUpperConfidenceBound
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.papers.rahbo import MeanVarianceSearch
from botorch_risk.repeats.adaptive_repeats import adaptive_repeats
from botorch_risk.seeding import generators
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import View, rows_at
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented

# The share of the variance by which values of a sample that are near each other may differ.
_ROUGHNESS = 1e-6


@documented(
    "risk_aversion=1.0, num_initial=4",
    2,
    min_repeats="The smallest number of readings, at least 1.",
    max_repeats="The largest number of readings.",
    options="Further arguments of `adaptive_repeats`.",
)
def bts_red(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    min_repeats: int = 2,
    max_repeats: int = 20,
    **options: Any,
) -> Strategy:
    r"""Mean-Var-BTS-RED of [Dai2023btsred]_, one point per round.

    Thompson sampling of `f - risk_aversion * rho^2` chooses a point, and the upper bound of its
    noise how often it is measured, so that all sample means are about equally exact:

        k(x) = ceil( ucb_var(x) / R^2 ),   within min_repeats and max_repeats

    The paper fills a batch of readings with several points a round, and sets R^2 by the size of the
    batch and the largest noise variance. Here there is one point a round, and R^2 is such that the
    noisiest point measured so far would get `max_repeats`.
    """
    check_arguments(bts_red, locals())
    rule = ThompsonSamplingByNoise(min_repeats, max_repeats)
    return adaptive_repeats(bounds, seeds, rule=rule, **options)


@dataclass(frozen=True)
class ThompsonSamplingByNoise:
    r"""Chooses the point by a joint sample, and the number of readings by the bound of its noise.

    The sample is drawn at candidates: uniform points, and points near the best one measured.

    Args:
        num_candidates: How many uniform points; half as many lie near the best one.
        reach: The standard deviation of those, in units of the range of each input.
    """

    min_repeats: int = 2
    max_repeats: int = 20
    num_candidates: int = 512
    reach: float = 0.1

    def __post_init__(self) -> None:
        check_counts(min_repeats=self.min_repeats, max_repeats=self.max_repeats)
        check_counts(2, num_candidates=self.num_candidates)
        if self.min_repeats > self.max_repeats:
            raise ValueError(
                "Expected `min_repeats` <= `max_repeats`. "
                f"Got {self.min_repeats=}, {self.max_repeats=}."
            )

    @torch.no_grad()
    def __call__(
        self, view: View, reporting: MeanVarianceSearch, measured: Tensor
    ) -> tuple[Tensor, Tensor]:
        model, weights = view.belief, reporting.weights
        candidates = self._candidates(view, reporting, measured)
        X = view.space.unit(candidates)
        mean = _sampled(model.mean_model.posterior(X), view, "f")
        noise = model.noise.link.inverse(_sampled(model.noise.model.posterior(X), view, "noise"))
        value = mean - weights.risk_aversion * model.noise.limits.apply(noise)
        chosen = rows_at(candidates, value.argmax(dim=-1))
        beta = weights.noise_beta or 0.0
        upper = model.noise.upper(view.space.unit(chosen.unsqueeze(-2)), beta).flatten()
        largest = model.noise.upper(model.train_X, beta).flatten(-2).amax(dim=-1)
        counts = (self.max_repeats * upper / largest).ceil()
        return chosen, counts.clamp(self.min_repeats, self.max_repeats)

    def _candidates(self, view: View, reporting: MeanVarianceSearch, measured: Tensor) -> Tensor:
        r"""Decisions `R x n x d`."""
        space, count = view.space.box, self.num_candidates
        uniform = space.random_points(view.seeds, count, "candidates", view.round)
        bound = reporting.weights.lower(view.belief)
        best = bound.mean(view.belief.train_X).argmax(dim=-1)
        streams = generators(view.seeds, "near the best", view.round)
        shape = (count // 2, space.bounds.shape[-1])
        steps = torch.stack([torch.randn(shape, generator=g, dtype=torch.double) for g in streams])
        lower, upper = space.bounds
        near = rows_at(measured, best).unsqueeze(-2) + self.reach * (upper - lower) * steps.to(
            lower
        )
        near = near.maximum(lower).minimum(upper)
        near[..., space.discrete] = near[..., space.discrete].round()
        return torch.cat([uniform, near], dim=-2)


def _sampled(posterior: Any, view: View, name: str) -> Tensor:
    r"""A joint sample `R x n` of a posterior, of each replicate by its own stream."""
    covariance = posterior.distribution.covariance_matrix
    # Many points that are near each other are dependent up to rounding.
    rounding = _ROUGHNESS * covariance.diagonal(dim1=-2, dim2=-1).mean(dim=-1, keepdim=True)
    factor = torch.linalg.cholesky(
        covariance + torch.diag_embed(rounding.expand(covariance.shape[:-1]))
    )
    streams = generators(view.seeds, "Thompson sample", name, view.round)
    shape = covariance.shape[-1:]
    normals = torch.stack([torch.randn(shape, generator=g, dtype=torch.double) for g in streams])
    step: Tensor = factor @ normals.to(factor).unsqueeze(-1)
    return posterior.mean.squeeze(-1) + step.squeeze(-1)


# The share of a gain that makes no difference.
_TIE = 1e-4


@documented(
    "risk_aversion=1.0, num_initial=4",
    2,
    target_ratio="The share of distinct points among readings that is aimed at, in (0, 1].",
    step="The number of readings of a round, at least 1.",
    options="Further arguments of `adaptive_repeats`.",
)
def hetgp_horizon(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    target_ratio: float = 0.2,
    step: int = 2,
    **options: Any,
) -> Strategy:
    r"""The look-ahead of [Binois2019replication]_ with the horizon `Target`, to optimise.

    Each round takes `step` readings, at RAHBO's next point or at a measured one. It compares
    sequences of `h + 1` steps, of which one at most is at a new point, and takes the first step of
    the best one; of equal ones, one that starts with a replicate. The horizon h grows by one after
    a new point where the share of distinct points among readings is above `target_ratio`, and
    shrinks by one, to -1 at the least, after a replicate where it is below; at -1 there is always a
    new point.

    The paper wants the surface everywhere and integrates its variance. Here the variance of
    `f - risk_aversion * rho^2` is summed over points that may be the best, whose upper bound is
    above the largest lower bound.
    """
    check_arguments(hetgp_horizon, locals())
    return adaptive_repeats(bounds, seeds, rule=AdaptiveHorizon(target_ratio, step), **options)


@dataclass(frozen=True)
class AdaptiveHorizon:
    r"""Compares sequences of steps, one of which is at a new point.

    Args:
        target_ratio: The share of distinct points among readings that is aimed at, in (0, 1].
        num_candidates: How many new points are considered when steps are counted ahead.
    """

    target_ratio: float = 0.2
    step: int = 2
    max_horizon: int = 4
    num_candidates: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.target_ratio <= 1:
            raise ValueError(f"Expected `target_ratio` in (0, 1]. Got {self.target_ratio}.")
        check_counts(step=self.step, num_candidates=self.num_candidates)
        check_counts(0, max_horizon=self.max_horizon)

    def __call__(
        self, view: View, reporting: MeanVarianceSearch, measured: Tensor
    ) -> tuple[Tensor, Tensor]:
        new = reporting.propose(view)  # R x 1 x d
        space = view.space.box
        others = space.random_points(view.seeds, self.num_candidates, "ahead", view.round)
        with torch.no_grad():
            ahead = _Ahead.of(view, reporting, torch.cat([new, others], dim=-2), self.step)
            row = self._first_step(ahead, self.horizons(_rows_with_readings(view.history)))
        again = rows_at(measured, row.clamp_min(0))
        X = again.where(row.unsqueeze(-1) >= 0, new.squeeze(-2))
        return X, torch.full_like(X[..., 0], self.step)

    def horizons(self, rows: Tensor) -> Tensor:
        r"""The horizon of each replicate, `R`, from `R x n x (d + 1)` rows with their readings."""
        horizons = []
        for history in rows:
            seen, readings, horizon = set(), 0.0, 0
            for *x, count in history[~history.isnan().any(dim=-1)].tolist():
                is_new = tuple(x) not in seen
                seen.add(tuple(x))
                readings += count
                ratio = len(seen) / readings
                if is_new and ratio > self.target_ratio:
                    horizon = min(horizon + 1, self.max_horizon)
                elif not is_new and ratio < self.target_ratio:
                    horizon = max(horizon - 1, -1)
            horizons.append(horizon)
        return torch.tensor(horizons, device=rows.device)

    def _first_step(self, ahead: _Ahead, horizons: Tensor) -> Tensor:
        r"""The measured row `R` that the best sequence starts with; -1 where it is a new point."""
        first = torch.full_like(horizons, -1)
        for horizon in range(int(horizons.max()) + 1):
            # With the new point first, and after 1, .., h replicates; then replicates alone.
            starts, gains = zip(
                *(ahead.sequence(horizon + 1, turn) for turn in range(horizon + 2)), strict=True
            )
            # Sequences of the same points in another order are equal up to rounding: then the one
            # that starts with a replicate is taken.
            lead = torch.stack([gains[0] * (1 - _TIE), *gains[1:]])
            best = lead.argmax(dim=0)
            chosen = torch.stack(starts).gather(0, best.unsqueeze(0)).squeeze(0)
            first = torch.where(horizons == horizon, chosen, first)
        return first


def _rows_with_readings(history: History) -> Tensor:
    r"""The decisions and how often each was read, `R x n x (d + 1)`; NaN where it was not."""
    counts = history.num_readings.unsqueeze(-1).to(history.X)
    return torch.cat([history.X[..., :-1], counts], dim=-1).where(counts > 0, torch.nan)


@dataclass(frozen=True)
class _Ahead:
    r"""The objective at measured and new points, jointly.

    Attributes:
        mean: `R x p x p` covariance of f.
        noise: `R x p x p` covariance of the log noise.
        reading: `R x p` noise variances of a reading.
        slope: `R x p`, by how much the objective falls as the log noise grows.
        counts: `R x p` numbers of readings.
        weight: `R x p`, 1 at points that may be the best.
    """

    mean: Tensor
    noise: Tensor
    reading: Tensor
    slope: Tensor
    counts: Tensor
    weight: Tensor
    is_measured: Tensor
    link: Any
    step: int

    @classmethod
    def of(cls, view: View, reporting: MeanVarianceSearch, new: Tensor, step: int) -> _Ahead:
        model, weights = view.belief, reporting.weights
        X = torch.cat([model.train_X, view.space.unit(new)], dim=-2)
        counts = torch.cat([model.train_counts.squeeze(-1), torch.zeros_like(new[..., 0])], dim=-1)
        is_new = torch.arange(X.shape[-2], device=X.device) >= model.train_X.shape[-2]
        is_measured = (counts > 0) & ~is_new
        bound = RiskAverseUpperConfidenceBound(model, **vars(weights))
        lower = bound.lower(X).masked_fill(~is_measured, -torch.inf).amax(dim=-1, keepdim=True)
        may_be_best = (bound.upper(X) >= lower) & (is_measured | is_new)
        return cls(
            model.mean_model.posterior(X).distribution.covariance_matrix,
            model.noise.model.posterior(X).distribution.covariance_matrix,
            model.noise_of_means(X, 1).squeeze(-1),
            weights.risk_aversion * model.predicted_noise(X).squeeze(-1),
            counts,
            may_be_best.to(X),
            is_measured,
            model.noise.link,
            step,
        )

    def sequence(self, length: int, turn: int) -> tuple[Tensor, Tensor]:
        r"""The greedy sequence with its new point at a turn; without one if it is beyond the end.

        Returns:
            `R` rows of the first step, -1 for a new point, and the variance removed by all.
        """
        ahead, total, first = self, self.weight.new_zeros(len(self.weight)), None
        for index in range(length):
            gains = ahead.gains()
            allowed = (
                ~ahead.is_measured & (ahead.counts == 0) if index == turn else ahead.is_measured
            )
            gain, row = gains.masked_fill(~allowed, -torch.inf).max(dim=-1)
            total, ahead = total + gain, ahead.after(row)
            if first is None:
                first = torch.full_like(row, -1) if turn == 0 else row
        assert first is not None
        return first, total

    def gains(self) -> Tensor:
        r"""The variance that a step at each point removes, `R x p`."""
        spread, learnt = self._factors()
        mean = (self.weight.unsqueeze(-1) * self.mean.square()).sum(dim=-2) / spread
        slopes = (self.weight * self.slope.square()).unsqueeze(-1)
        return mean + (slopes * self.noise.square()).sum(dim=-2) * learnt

    def after(self, row: Tensor) -> _Ahead:
        r"""After a step at a point of each replicate, which is measured then."""
        spread, learnt = (part.gather(-1, row.unsqueeze(-1)) for part in self._factors())
        columns = [rows_at(covariance, row) for covariance in (self.mean, self.noise)]
        outer = [column.unsqueeze(-1) * column.unsqueeze(-2) for column in columns]
        here = torch.nn.functional.one_hot(row, self.counts.shape[-1])
        return replace(
            self,
            mean=self.mean - outer[0] / spread.unsqueeze(-1),
            noise=self.noise - outer[1] * learnt.unsqueeze(-1),
            counts=self.counts + self.step * here,
            is_measured=self.is_measured | here.bool(),
        )

    def _factors(self) -> tuple[Tensor, Tensor]:
        r"""The variance of a mean of a step, and what divides the noise's squares, `R x p`."""
        spread = self.mean.diagonal(dim1=-2, dim2=-1) + self.reading / self.step
        more = self.link.precision(self.counts + self.step) - self.link.precision(self.counts)
        return spread, more / (1 + more * self.noise.diagonal(dim1=-2, dim2=-1))
