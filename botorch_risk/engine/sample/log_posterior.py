r"""Sample the posterior of hyperparameters: the loss of a fit, as a density."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.fit.fit_objective import FitObjective
from botorch_risk.engine.fit.starts import Starts
from botorch_risk.engine.sample.importance import NUM_STAGES, Proposal, Samples, sample_density
from botorch_risk.seeding import as_seeds
from botorch_risk.steady import steady

# The mode is where the draws begin, no more: four digits are enough.
_TOLERANCE, _MAX_ITERATIONS = 1e-4, 60
# The step of the differences of gradients, of a logarithm, and the least curvature of a proposal.
_STEP, _LEAST_CURVATURE = 1e-3, 0.7
# Stages that begin where the last round's draws were, instead of at a mode.
_WARM_STAGES = 2


@dataclass(frozen=True)
class SampledHyperparameters:
    r"""The effective draws behind the samples of `R` replicates, and the next round's start.

    Args:
        effective: The effective number of independent draws that the samples stand for,
            `batch_shape` of the data; 0 for a replicate whose data cannot be sampled from, which
            keeps its hyperparameters.
        location: The mean of the hyperparameters in the fit's coordinates, `R x p`.
        covariance: Their covariance, `R x p x p`.
        log_evidence: The log of the marginal likelihood over all hyperparameters, `batch_shape`, up
            to a number that models of the same data share; -inf for data that cannot be sampled
            from.
    """

    effective: Tensor
    location: Tensor
    covariance: Tensor
    log_evidence: Tensor


class LogPosterior(FitObjective):
    r"""A loss that is minus a log posterior density per datum, of the parameters themselves.

    The density of a logarithm is the density of its hyperparameter times the hyperparameter.

    Attributes:
        lost: The replicates that cannot be sampled from, `R`.
    """

    lost: ndarray

    @abstractmethod
    def log_density(self, theta: ndarray, replicates: ndarray) -> ndarray:
        r"""The log density up to a number, `draws x rows`; -inf outside of the bounds.

        `theta` are parameters, `draws x rows x p`, of the `replicates`, `rows`.
        """

    @property
    def limits(self) -> tuple[ndarray, ndarray]:
        r"""The lower and upper bounds, `R x p` each; equal bounds fix a parameter."""
        return self.bounds(np.arange(len(self.num_observed)))

    def begin(self, location: ndarray) -> None:
        r"""Prepare for draws around locations `R x p`."""

    def sample(
        self,
        starts: Callable[[], Starts],
        num_samples: int,
        seeds: int | Sequence[int],
        previous: SampledHyperparameters | None = None,
    ) -> tuple[ndarray, SampledHyperparameters]:
        r"""Draw the parameters of each replicate, `S x R x p`.

        Args:
            starts: Makes the starts of the search for the modes.
            num_samples: The number `S`.
            seeds: One for each replicate, whose draws depend on nothing else.
            previous: The result for almost the same data, instead of a search.
        """
        listed = as_seeds(seeds, len(self.num_observed))
        start = _at_modes(self, starts()) if previous is None else _of(previous, self)
        self.begin(start.location)
        num_stages = NUM_STAGES if previous is None else _WARM_STAGES
        draws = _drawn(self, start, num_samples, listed, num_stages)
        effective = np.where(self.lost, 0.0, draws.effective).reshape(self.batch_shape)
        evidence = np.where(self.lost, -np.inf, draws.log_evidence).reshape(self.batch_shape)
        parts = map(torch.as_tensor, (effective, *draws.proposal, evidence))
        return draws.values, SampledHyperparameters(*parts)


def _at_modes(density: LogPosterior, starts: Starts) -> Proposal:
    r"""The highest mode that the starts find, with the inverse curvature there."""
    options: dict[str, Any] = {"max_iterations": _MAX_ITERATIONS, "gradient_tolerance": _TOLERANCE}
    minima = density.minimize(starts, options)
    R, p = len(density.num_observed), density.num_parameters
    values = np.full((starts.rows[-1] // R + 1) * R, np.inf)
    values[starts.rows] = np.where(np.isfinite(minima.value), minima.value, np.inf)
    lowest = values.reshape(-1, R).argmin(axis=0) * R + np.arange(R)
    location = minima.x[np.searchsorted(starts.rows, lowest)]
    # Row `k R + r` is step `k` of replicate `r`: all gradients come from one call.
    steps = _STEP * np.concatenate([np.eye(p), -np.eye(p)])
    moved = (location + steps[:, None]).reshape(-1, p)
    with steady():
        _, gradients = density(moved, np.arange(len(moved)))
    above, below = gradients.reshape(2, p, R, p)
    curvature = ((above - below) / (2 * _STEP)).swapaxes(0, 1)
    curvature = curvature * density.num_observed[:, None, None]  # of the sum, not of the mean
    # Where the curvature is unknown, 0 or negative, its inverse would be no covariance.
    curvature = np.where(np.isfinite(curvature), curvature, 0.0)
    size, axes = np.linalg.eigh((curvature + curvature.swapaxes(1, 2)) / 2)
    size = np.maximum(size, _LEAST_CURVATURE)
    return Proposal(location, (axes / size[:, None]) @ axes.swapaxes(1, 2))


def _of(previous: SampledHyperparameters, density: LogPosterior) -> Proposal:
    location, covariance = (
        each.detach().cpu().double().numpy().copy()
        for each in (previous.location, previous.covariance)
    )
    expected = (len(density.num_observed), density.num_parameters)
    if location.shape != expected:
        raise BotorchTensorDimensionError(
            "Expected `previous` to have the same replicates and hyperparameters, `R x p` = "
            f"{expected}. Got {location.shape}."
        )
    return Proposal(location, covariance)


def _drawn(
    density: LogPosterior, start: Proposal, num_samples: int, seeds: Sequence[int], num_stages: int
) -> Samples:
    r"""Draws of the hyperparameters; those whose limits are equal stay as they are."""
    location, covariance = start
    lower, upper = density.limits
    # Any other value of a fixed parameter lies outside of its limits, where the density is 0.
    free = np.flatnonzero((lower < upper).any(axis=0))
    samples = np.broadcast_to(location, (num_samples, *location.shape)).copy()
    if not free.size:
        known = density.log_density(location[None], np.arange(len(location)))[0]
        return Samples(samples, np.full(len(location), float(num_samples)), start, known)

    def log_density(theta: ndarray, rows: ndarray) -> ndarray:
        whole = np.broadcast_to(location[rows], (*theta.shape[:2], location.shape[1])).copy()
        whole[..., free] = theta
        return density.log_density(whole, rows)

    inner = Proposal(location[:, free], covariance[:, free[:, None], free])
    found = sample_density(log_density, inner, num_samples, seeds, num_stages)
    samples[..., free] = found.values
    location, covariance = location.copy(), covariance.copy()
    location[:, free], covariance[:, free[:, None], free] = found.proposal
    proposal = Proposal(location, covariance)
    return Samples(samples, found.effective, proposal, found.log_evidence)
