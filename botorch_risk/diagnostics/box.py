r"""Whether the intervals of a model hold in all of a box, where readings are and where none are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from botorch.models.transforms.input import Normalize
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_risk.arguments import check_bounds
from botorch_risk.engine import Belief, sample_exact_gp
from botorch_risk.matrices import safe_root
from botorch_risk.models.sampled_gp import SampledGP

SHARE = 0.9  # of the box, in which 95 % intervals should hold
SURE = 0.95  # the probability of it with which the intervals of a box are trusted
_WIDTH = 1.96  # of a 95 % interval, in standard deviations
_NUM_POINTS, _NUM_MEMBERS, _NUM_DRAWS = 256, 16, 32
_SMOOTHNESS = (2.5, math.inf)


@dataclass(frozen=True)
class BoxCheck:
    r"""How far the 95 % intervals of f hold in a box, by samples of the hyperparameters.

    Attributes:
        expected: `batch_shape`, the share of the box in which they are expected to hold.
        probability: `batch_shape`, the probability that they hold in at least 90 % of the box.
        factor: `batch_shape`, the factor by which the standard deviations have to be multiplied to
            make this probability 95 %.
        least_sure: `batch_shape x d`, the point where they are least sure to hold, to be read next.
    """

    expected: Tensor
    probability: Tensor
    factor: Tensor
    least_sure: Tensor


@torch.no_grad()
def check_box(
    model: Any, bounds: Tensor, inputs: Tensor, observed: Tensor, noise: Tensor | None
) -> BoxCheck:
    r"""Compare the intervals of a model with what its data allow.

    The estimate of the hyperparameters may be far off. It matters most where no reading is near,
    and predictions of the rows themselves say nothing about such places. So functions are drawn at
    256 points of the box from a `SampledGP` of the same rows, which samples hyperparameters, and
    counted where they lie in the intervals of the model. The drawn functions have a Matern-5/2 or a
    squared-exponential kernel, each as probable as its evidence says.

    Args:
        model: The model of f, one output.
        bounds: `2 x d`, the box, of continuous inputs.
        inputs: The rows, `batch_shape x n x d`.
        observed: The outcomes, `batch_shape x n`; NaN for rows without one.
        noise: The variances of the outcomes, `batch_shape x n`; None to learn one level.
    """
    d, batch_shape = inputs.shape[-1], inputs.shape[:-2]
    check_bounds(bounds, d)
    bounds = bounds.to(inputs)
    points = draw_sobol_samples(bounds, _NUM_POINTS, 1, seed=0).squeeze(-2)
    moments = Belief(model)(points.expand(*batch_shape, *points.shape))
    mean, variance = (each.reshape(-1, len(points)) for each in moments)
    noises = observed if noise is None else noise
    flat = (each.reshape(-1, each.shape[-1]) for each in (observed, noises))
    found = []
    for X, Y, own, m, v in zip(
        inputs.reshape(-1, *inputs.shape[-2:]), *flat, mean, variance, strict=True
    ):
        known = Y.isfinite()
        rows = X[known], Y[known].unsqueeze(-1), own[known].unsqueeze(-1)
        draws, weights = _draws(*rows[:2], None if noise is None else rows[2], bounds, points)
        found.append(_compare(draws, weights, m, v.sqrt()))
    expected, probability, factor, index = (torch.stack(each) for each in zip(*found, strict=True))
    return BoxCheck(
        expected.reshape(batch_shape),
        probability.reshape(batch_shape),
        factor.reshape(batch_shape),
        points[index].reshape(*batch_shape, d),
    )


def _draws(
    X: Tensor, Y: Tensor, noise: Tensor | None, bounds: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Functions at some points, `s x m`, and their probabilities, `s`."""
    draws, evidence = [], []
    for nu in _SMOOTHNESS:
        to_cube = Normalize(len(bounds.T), bounds=bounds)
        model = SampledGP(X, Y, noise, to_cube, num_samples=_NUM_MEMBERS, nu=nu)
        with torch.enable_grad():
            sampled = sample_exact_gp(model.members, seeds=0)
        evidence.append(sampled.log_evidence.to(points))
        posterior: Any = model.members.posterior(points.expand(_NUM_MEMBERS, *points.shape))
        covariance = posterior.distribution.covariance_matrix
        stream = torch.Generator().manual_seed(0)
        shape = _NUM_MEMBERS, _NUM_DRAWS, len(points)
        numbers = torch.randn(shape, generator=stream, dtype=torch.double).to(points)
        scale = covariance.diagonal(dim1=-2, dim2=-1).amax()
        mean = posterior.distribution.mean.unsqueeze(-2)
        draws.append((mean + numbers @ safe_root(covariance, scale).mT).flatten(0, 1))
    weights = torch.stack(evidence).softmax(dim=0) / len(draws[0])
    return torch.cat(draws), weights.repeat_interleave(len(draws[0]))


def _compare(draws: Tensor, weights: Tensor, mean: Tensor, deviation: Tensor) -> tuple[Tensor, ...]:
    r"""Of one replicate: expected share, probability, factor, and the index of a point."""
    off = (draws - mean).abs() / (_WIDTH * deviation)
    inside = (off <= 1).to(mean)
    enough = (inside.mean(dim=-1) >= SHARE).to(mean) @ weights
    needed, order = off.quantile(SHARE, dim=-1).sort()
    at = (weights[order].cumsum(dim=-1) < SURE).sum().clamp_max(len(needed) - 1)
    of_points = weights @ inside
    return of_points.mean(), enough, needed[at], of_points.argmin()
