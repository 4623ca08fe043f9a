r"""Adaptive importance sampling of many densities at once.

Each stage draws from a Student-t distribution, first around the mode and then with the mean and the
covariance of all weighted draws so far. A draw of any stage is weighted by the density over the
mixture of all proposals [Cornuet2012amis]_. The draws of a stage are independent, so that the
density is evaluated for all of them in one call: a chain would wait for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.special import gammaln, logsumexp

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


class Draws(NamedTuple):
    r"""Samples of `R` densities.

    Args:
        samples: `S x R x p`, of equal weights.
        effective: The effective number of draws that the samples stand for, `R`.
        proposal: Mean and covariance of the weighted draws.
    """

    samples: ndarray
    effective: ndarray
    proposal: Proposal


def sample_density(
    log_density: LogDensity,
    start: Proposal,
    num_samples: int,
    generators: Sequence[Generator],
    num_stages: int = NUM_STAGES,
) -> Draws:
    r"""Draw from each of `R` densities.

    Args:
        log_density: Up to a constant; not finite where there is no density.
        start: Around the modes.
        num_samples: The number `S` of samples.
        generators: One for each row: its draws do not depend on the other rows.
        num_stages: The number of stages before the first look at the effective draws.
    """
    rows = np.arange(len(generators))
    weighted = _Weighted(log_density, start, generators)
    for stage in range(num_stages):
        weighted.add(rows, is_first=stage == 0)
    for _ in range(_MORE_STAGES):
        poor = rows[weighted.effective < _EFFECTIVE * num_samples]
        if not poor.size:
            break
        weighted.add(poor)
    samples = np.stack([weighted.resampled(row, num_samples) for row in range(len(rows))], axis=1)
    return Draws(samples, weighted.effective, weighted.proposal)


class _Weighted:
    r"""The weighted draws of all rows, each with as many stages as it needs."""

    def __init__(
        self, log_density: LogDensity, start: Proposal, generators: Sequence[Generator]
    ) -> None:
        self.log_density, self.generators, self.proposal = log_density, generators, start
        R, p = start.location.shape
        self.effective = np.zeros(R)
        self.draws = [np.zeros((0, p)) for _ in range(R)]
        self.log_densities = [np.zeros(0) for _ in range(R)]
        self.log_proposals = [np.zeros(0) for _ in range(R)]  # of the mixture, not normalised
        self.parts: list[list[tuple[int, ndarray, ndarray]]] = [[] for _ in range(R)]
        self.weights = [np.zeros(0) for _ in range(R)]

    def add(self, rows: ndarray, is_first: bool = False) -> None:
        r"""One more stage of some rows."""
        num_far = int(_SHARE_FAR * NUM_DRAWS) if is_first else 0
        near = _FIRST if is_first else _WIDER
        parts = [(NUM_DRAWS - num_far, near), (num_far, _FAR * near)][: 1 + (num_far > 0)]
        root = np.linalg.cholesky(self.proposal.covariance[rows])
        new = np.empty((NUM_DRAWS, len(rows), root.shape[-1]))
        for k, row in enumerate(rows):
            begin = 0
            for count, scale in parts:
                factor = np.sqrt(scale) * root[k]
                new[begin : begin + count, k] = self._draw(row, count, factor)
                self.parts[row].append((count, self.proposal.location[row].copy(), factor))
                begin += count
        found = self.log_density(new, rows)
        for k, row in enumerate(rows):
            self._take(row, new[:, k], found[:, k], len(parts))

    def _draw(self, row: int, count: int, factor: ndarray) -> ndarray:
        generator = self.generators[row]
        normal = generator.standard_normal((count, len(factor)))
        spread = np.sqrt(_FREEDOM / generator.chisquare(_FREEDOM, (count, 1)))
        drawn: ndarray = self.proposal.location[row] + spread * (normal @ factor.T)
        return drawn

    def _take(self, row: int, new: ndarray, log_density: ndarray, num_new: int) -> None:
        r"""Weight all draws of a row again, by the mixture of all its proposals."""
        parts = self.parts[row]
        old = _log_mixture(self.draws[row], parts[-num_new:])
        self.log_proposals[row] = np.concatenate(
            [np.logaddexp(self.log_proposals[row], old), _log_mixture(new, parts)]
        )
        self.draws[row] = np.concatenate([self.draws[row], new])
        known = np.where(np.isfinite(log_density), log_density, -np.inf)
        self.log_densities[row] = np.concatenate([self.log_densities[row], known])
        log_weights = self.log_densities[row] - self.log_proposals[row]
        total = logsumexp(log_weights)
        if not np.isfinite(total):  # no draw has a density: the start is all that is known
            self.weights[row] = np.full(len(log_weights), 1.0 / len(log_weights))
            return
        weights = self.weights[row] = np.exp(log_weights - total)
        self.effective[row] = 1.0 / np.square(weights).sum()
        mean = weights @ self.draws[row]
        centred = self.draws[row] - mean
        covariance = (weights[:, None] * centred).T @ centred
        self.proposal.location[row] = mean
        self.proposal.covariance[row] = covariance + _FLOOR * np.eye(len(mean))

    def resampled(self, row: int, num_samples: int) -> ndarray:
        r"""Samples of equal weight, spread evenly along the direction of the largest variance."""
        draws = self.draws[row]
        _, directions = np.linalg.eigh(self.proposal.covariance[row])
        # The sign of an eigenvector is arbitrary; the order along it is not to be.
        along = directions[:, -1] * np.sign(directions[np.abs(directions[:, -1]).argmax(), -1])
        order = np.argsort(draws @ along, kind="stable")
        steps = (np.arange(num_samples) + self.generators[row].random()) / num_samples
        index = np.searchsorted(self.weights[row][order].cumsum(), steps)
        chosen: ndarray = draws[order[index.clip(max=len(order) - 1)]]
        return chosen


def _log_mixture(draws: ndarray, parts: Sequence[tuple[int, ndarray, ndarray]]) -> ndarray:
    r"""The log of the sum of Student-t densities, each times its number of draws."""
    p = draws.shape[-1]
    each = []
    for count, location, factor in parts:
        z = np.linalg.solve(factor, (draws - location).T)
        distance = np.square(z).sum(axis=0) / _FREEDOM
        scale = np.log(count) - np.log(factor.diagonal()).sum()
        each.append(scale - 0.5 * (_FREEDOM + p) * np.log1p(distance))
    normaliser = gammaln((_FREEDOM + p) / 2) - gammaln(_FREEDOM / 2)
    normaliser -= 0.5 * p * np.log(np.pi * _FREEDOM)
    found: ndarray = logsumexp(np.stack(each), axis=0) + normaliser
    return found
