r"""Replicable experimental design by Thompson sampling, for mean minus variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.seeding import generators
from botorch_risk.strategies.adaptive_repeats import adaptive_repeats
from botorch_risk.strategies.mean_variance import MeanVariance
from botorch_risk.strategies.method import View, rows_at
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy

# The share of the variance by which values of a sample that are near each other may differ.
_ROUGHNESS = 1e-6


def bts_red(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    min_repeats: int = 2,
    max_repeats: int = 20,
    **options: Any,
) -> Strategy:
    r"""Mean-Var-BTS-RED of [Dai2023btsred]_, one point a round.

    Thompson sampling of `f - risk_aversion * rho^2` chooses a point, and the upper bound of its
    noise how often it is measured, so that all sample means are about equally exact:

        k(x) = ceil( ucb_var(x) / R^2 ),   within min_repeats and max_repeats

    The paper fills a batch of readings with several points a round, and sets R^2 by the size of the
    batch and the largest noise variance. Here there is one point a round, and R^2 is such that the
    noisiest point measured so far would get `max_repeats`.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        min_repeats: The least number of readings, at least 1.
        max_repeats: The largest number of readings.
        options: Further arguments of `adaptive_repeats`.

    Raises:
        TypeError: If an argument has the wrong type.
        UnsupportedError: If the batch size is not 1, or the reporting rule needs recorded bounds.
        ValueError: If a number is out of its range.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> bts_red(bounds, seeds=[0, 1], risk_aversion=1.0, num_initial=4).ask().shape
        torch.Size([2, 4, 2])
    """
    check_arguments(bts_red, locals())
    rule = ThompsonSamplingByNoise(min_repeats, max_repeats)
    return adaptive_repeats(bounds, seeds, rule=rule, **options)


@dataclass(frozen=True)
class ThompsonSamplingByNoise:
    r"""A joint sample of mean and noise chooses the point, the bound of its noise the readings.

    The sample is drawn at candidates: uniform points, and points near the best one measured.

    Args:
        min_repeats: The least number of readings.
        max_repeats: The largest number of readings.
        num_candidates: How many uniform points; half as many lie near the best one.
        reach: The standard deviation of those, in units of the range of each input.

    Raises:
        ValueError: If a number is out of its range.
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
        self, view: View, reporting: MeanVariance, measured: Tensor
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

    def _candidates(self, view: View, reporting: MeanVariance, measured: Tensor) -> Tensor:
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
