r"""Adaptive importance sampling of many densities at once.

Each stage draws from a Student-t distribution, first around the mode and then with the mean and the
covariance of all weighted draws so far. A draw of any stage is weighted by the density over the
mixture of all proposals [Cornuet2012amis]_. The draws of a stage are independent, so that the
density is evaluated for all of them in one call: a chain would wait for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import gammaln, logsumexp

from botorch_risk.seeding import Draws, streams

# Degrees of freedom of the proposals: heavier tails than a posterior of logarithms.
_FREEDOM = 5
# The proposals' covariance, in covariances of the draws so far. The first one is around a mode. Its
# curvature may belong to one of several explanations, so a few draws go far from it.
_WIDER, _FIRST, _FAR = 1.3, 2.5, 16.0
_SHARE_FAR = 0.25
# Added to the variance of each parameter, a logarithm: a few draws may lie close together.
_FLOOR = 0.02
# Draws per stage, and stages: of all replicates, then of those with few effective draws.
NUM_DRAWS, NUM_STAGES, _MORE_STAGES = 96, 4, 8
# Effective draws per sample below which a replicate has more stages.
_EFFECTIVE = 3.0

# From parameters `draws x rows x p` and the rows to log densities `draws x rows`.
LogDensity = Callable[[ndarray, ndarray], ndarray]


class Proposal(NamedTuple):
    r"""Where the draws of `R` rows begin: locations `R x p` and covariances `R x p x p`."""

    location: ndarray
    covariance: ndarray


class Samples(NamedTuple):
    r"""Samples of `R` densities."""

    values: ndarray  # S x R x p, of equal weights
    effective: ndarray  # the effective number of draws that the samples stand for, R
    proposal: Proposal  # mean and covariance of the weighted draws
    log_evidence: ndarray  # the logarithm of the integral of the density, R


def sample_density(
    log_density: LogDensity,
    start: Proposal,
    num_samples: int,
    seeds: Sequence[int],
    num_stages: int = NUM_STAGES,
) -> Samples:
    r"""Draw from each of `R` densities.

    Args:
        log_density: The log density up to a constant; not finite outside of the support.
        start: Locations and covariances around the modes.
        num_samples: The number `S` of samples.
        seeds: One for each row: its draws do not depend on the other rows.
        num_stages: The number of stages before the first look at the effective draws.
    """
    R, p = start.location.shape
    proposal = Proposal(start.location.copy(), start.covariance.copy())
    found = Samples(np.empty((num_samples, R, p)), np.empty(R), proposal, np.empty(R))
    weighted = _Weighted.of_none(start, seeds)
    for _ in range(num_stages):
        weighted = weighted.after_one_more(log_density)
    for stage in range(_MORE_STAGES + 1):
        poor = weighted.effective < _EFFECTIVE * num_samples
        ended = np.ones_like(poor) if stage == _MORE_STAGES else ~poor
        weighted.of(ended).put_into(found)
        if ended.all():
            break
        weighted = weighted.of(~ended).after_one_more(log_density)
    return found


@dataclass(frozen=True)
class _Weighted:
    r"""The weighted draws of `R` rows that have had equally many stages."""

    rows: ndarray
    seeds: ndarray  # one stream for each row
    draws: ndarray  # R x n x p
    log_density: ndarray  # of each draw, R x n
    log_proposal: ndarray  # under the mixture of all proposals, not normalised, R x n
    weights: ndarray  # R x n, with a sum of 1
    effective: ndarray  # the effective number of draws, R
    proposal: Proposal  # mean and covariance of the weighted draws
    # The number of draws, the location and the root of the covariance of each part of the mixture.
    parts: tuple[tuple[int, ndarray, ndarray], ...]

    @classmethod
    def of_none(cls, start: Proposal, seeds: Sequence[int]) -> _Weighted:
        r"""No draws yet, around a start."""
        R, p = start.location.shape
        none = np.zeros((R, 0))
        own = np.array(streams(seeds, "hyperparameters"))
        draws = np.zeros((R, 0, p))
        return cls(np.arange(R), own, draws, none, none, none, np.zeros(R), start, ())

    def of(self, chosen: ndarray) -> _Weighted:
        if chosen.all():
            return self
        return _Weighted(
            self.rows[chosen],
            self.seeds[chosen],
            self.draws[chosen],
            self.log_density[chosen],
            self.log_proposal[chosen],
            self.weights[chosen],
            self.effective[chosen],
            Proposal(*(each[chosen] for each in self.proposal)),
            tuple((count, at[chosen], root[chosen]) for count, at, root in self.parts),
        )

    def after_one_more(self, log_density: LogDensity) -> _Weighted:
        r"""All draws after one more stage, weighted by the mixture of all proposals."""
        new, added = self._drawn()
        parts = (*self.parts, *added)
        found = np.ascontiguousarray(log_density(new.swapaxes(0, 1), self.rows).T)
        # A further part of the mixture changes the weights of earlier draws too.
        old = np.logaddexp(self.log_proposal, _log_mixture(self.draws, added))
        log_proposal = np.concatenate([old, _log_mixture(new, parts)], axis=1)
        known = np.where(np.isfinite(found), found, -np.inf)
        known = np.concatenate([self.log_density, known], axis=1)
        draws = np.concatenate([self.draws, new], axis=1)
        weighed = self._weighed(draws, known - log_proposal)
        return _Weighted(self.rows, self.seeds, draws, known, log_proposal, *weighed, parts)

    def _drawn(self) -> tuple[ndarray, list[tuple[int, ndarray, ndarray]]]:
        r"""New draws, `R x NUM_DRAWS x p`, and the parts that they add to the mixture."""
        num_far = 0 if self.parts else int(_SHARE_FAR * NUM_DRAWS)
        near = _WIDER if self.parts else _FIRST
        scales = [(NUM_DRAWS - num_far, near), (num_far, _FAR * near)][: 1 + (num_far > 0)]
        location, covariance = self.proposal
        root, p = np.linalg.cholesky(covariance), location.shape[1]
        added = [(count, location, np.sqrt(scale) * root) for count, scale in scales]
        draws = Draws(self.seeds.tolist(), "stage", self.draws.shape[1])
        new = []
        for count, _, factor in added:
            # A normal vector over the root of an independent mean square is Student-t.
            normal, chi = draws.normals(count, p), draws.normals(count, _FREEDOM)
            spread = np.sqrt(_FREEDOM / np.square(chi).sum(axis=-1, keepdims=True))
            new.append(location[:, None] + spread * (normal @ factor.swapaxes(1, 2)))
        return np.concatenate(new, axis=1), added

    def _weighed(self, draws: ndarray, log_weights: ndarray) -> tuple[ndarray, ndarray, Proposal]:
        r"""Weights `R x n`, effective draws, and moments; rows without a density keep theirs."""
        total = logsumexp(log_weights, axis=1, keepdims=True)
        has_any = np.isfinite(total)
        even = 1.0 / log_weights.shape[1]
        weights = np.where(has_any, np.exp(log_weights - np.where(has_any, total, 0.0)), even)
        mean = (weights[:, None] @ draws)[:, 0]
        centred = draws - mean[:, None]
        covariance = (weights[..., None] * centred).swapaxes(1, 2) @ centred
        covariance += _FLOOR * np.eye(mean.shape[1])
        known = has_any[:, 0]
        effective = np.where(known, 1.0 / np.square(weights).sum(axis=1), self.effective)
        location = np.where(known[:, None], mean, self.proposal.location)
        covariance = np.where(known[:, None, None], covariance, self.proposal.covariance)
        return weights, effective, Proposal(location, covariance)

    def put_into(self, found: Samples) -> None:
        r"""Write samples of equal weight, spread evenly along the direction of largest variance."""
        found.effective[self.rows] = self.effective
        # The mixture counts its draws, so that the sum of the weights is the mean of the ratios.
        found.log_evidence[self.rows] = logsumexp(self.log_density - self.log_proposal, axis=1)
        for to, own in zip(found.proposal, self.proposal, strict=True):
            to[self.rows] = own
        _, directions = np.linalg.eigh(self.proposal.covariance)
        along = directions[..., -1]
        # The sign of an eigenvector is arbitrary; the order along it is not to be.
        largest = np.abs(along).argmax(axis=1, keepdims=True)
        along = along * np.sign(np.take_along_axis(along, largest, axis=1))
        order = (self.draws @ along[..., None])[..., 0].argsort(axis=1, kind="stable")
        num_samples = len(found.values)
        # One uniform number per row and even steps: systematic resampling, whose samples vary less
        # than independent ones.
        steps = np.arange(num_samples) + Draws(self.seeds.tolist(), "resampled").uniforms(1)
        mass = np.take_along_axis(self.weights, order, axis=1).cumsum(axis=1)
        index = (mass[:, None] < steps[..., None] / num_samples).sum(axis=-1)
        chosen = np.take_along_axis(order, index.clip(max=order.shape[1] - 1), axis=1)
        samples = np.take_along_axis(self.draws, chosen[..., None], axis=1)
        found.values[:, self.rows] = samples.swapaxes(0, 1)


def _log_mixture(draws: ndarray, parts: Sequence[tuple[int, ndarray, ndarray]]) -> ndarray:
    r"""The log of the sum of Student-t densities, each times its number of draws, `R x n`."""
    p = draws.shape[-1]
    each = []
    for count, location, factor in parts:
        # NumPy has no triangular solve for a batch.
        z = np.linalg.solve(factor, (draws - location[:, None]).swapaxes(1, 2))
        distance = np.square(z).sum(axis=-2) / _FREEDOM
        sizes = np.log(factor.diagonal(axis1=-2, axis2=-1)).sum(axis=-1)
        scale = np.log(count) - sizes[:, None]
        each.append(scale - 0.5 * (_FREEDOM + p) * np.log1p(distance))
    normaliser = gammaln((_FREEDOM + p) / 2) - gammaln(_FREEDOM / 2)
    normaliser -= 0.5 * p * np.log(np.pi * _FREEDOM)
    found: ndarray = logsumexp(np.stack(each), axis=0) + normaliser
    return found
