r"""Sample the hyperparameters of a process of the mean and of one of the log noise variance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from botorch.models import SingleTaskGP
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine import LogPosterior, MarginalLikelihoodObjective, SampledHyperparameters
from botorch_risk.models.evidence_objective import EvidenceObjective, TwoProcesses
from botorch_risk.models.laplace_evidence import Mode, Readings, find_mode, pull_of_sites
from botorch_risk.models.mean_and_noise import ReadingStatistics, normal_prior, starts_of_evidence
from botorch_risk.seeding import Draws, as_seeds, even_normals
from botorch_risk.steady import steady

# The search for the mode of the noise ends before a step shorter than this: the evidence is off by
# its square.
_LAST_STEP = 1e-3
# A start ends at this gradient per point: draws begin there, no more.
_START = {"gradient_tolerance": 1e-3}


def sample_mean_and_noise(
    mean_model: SingleTaskGP,
    noise_model: SingleTaskGP,
    given: ReadingStatistics,
    *,
    tied: bool,
    seeds: int | Sequence[int],
    previous: SampledHyperparameters | None = None,
) -> SampledHyperparameters:
    r"""Sample the hyperparameters of both processes, given all readings, in place.

    The density is the evidence of `fit_mean_and_noise` times the priors of the logarithms. The
    constant of the noise is then drawn given the others; the constant of the mean follows once the
    noise of the rows is known.

    The models have the batch shape `[S]` or `[S, R]`, samples first; the readings are the same for
    all samples. There is one seed per replicate.
    """
    models = (mean_model.train(), noise_model.train())
    of_first = given.of_first_sample()
    processes = TwoProcesses(
        *(MarginalLikelihoodObjective.of_first_sample(each, of_first.observed) for each in models)
    )
    R = processes.num_replicates
    every, variance = given.read(mean_model)
    readings = every.rows(torch.arange(R, device=every.means.device))
    variances = torch.stack([variance, normal_prior(noise_model.mean_module)[1]])[:, :R]
    density = _EvidencePosterior(processes, readings, variances, tied)
    is_known = of_first.is_known.reshape(-1).cpu().numpy()
    samples, result = density.sample(
        lambda: starts_of_evidence(density, is_known, np.ones(R, dtype=bool), _START),
        mean_model.batch_shape[0],
        seeds,
        previous,
    )
    with steady():
        samples[..., -1] = density.levels(samples, seeds)
    whole = TwoProcesses(*(MarginalLikelihoodObjective.of(each, given.observed) for each in models))
    whole.write(samples.reshape(-1, density.num_parameters), whole.lost)
    return result


class _EvidencePosterior(LogPosterior, EvidenceObjective):
    r"""The log posterior density of the logarithms of both processes' hyperparameters.

    The level, the last parameter, is not sampled with them: it is integrated out.
    """

    @property
    def lost(self) -> ndarray:  # type: ignore[override]
        return self.processes.lost

    @property
    def limits(self) -> tuple[ndarray, ndarray]:
        lower, upper = super().limits
        # The level is drawn afterwards: between equal limits it does not move.
        lower[:, -1] = upper[:, -1] = 0.0
        return lower, upper

    def _log_priors(
        self, theta: ndarray, values: ndarray, slopes: ndarray, rows: ndarray
    ) -> tuple[ndarray, ndarray]:
        r"""The log prior density of the logarithms, and its gradient."""
        value, gradient = super()._log_priors(theta, values, slopes, rows)
        # The density of a logarithm has the factor exp(theta), by the change of variables.
        gradient[:, :-1] += 1.0
        return value + theta[:, :-1].sum(axis=1), gradient

    def begin(self, location: ndarray) -> None:
        r"""Find the modes of the noise at the locations, from which later searches begin."""
        with steady():
            self(location, np.arange(len(location)))
        self._begun = self._mode[: len(location), :2].clone()

    @steady()
    def log_density(self, theta: ndarray, replicates: ndarray) -> ndarray:
        index = np.tile(replicates, len(theta))
        rows = theta.reshape(len(index), -1)
        lower, upper = self.bounds(index)
        inside = np.all((rows >= lower) & (rows <= upper), axis=1)
        # Draws outside get density 0 below; their covariances must exist until then.
        rows = np.clip(rows, lower, upper)
        values, slopes = self.processes.natural(rows, index)
        value, _ = self._log_priors(rows, values, slopes, index)
        evidence = [at.mode.log_evidence(at.C, at.data) for at in self._at(values, index)]
        value += torch.cat(evidence).cpu().numpy()
        value[~inside | self.lost[index]] = -np.inf
        found: ndarray = value.reshape(theta.shape[:2])
        return found

    def levels(self, samples: ndarray, seeds: int | Sequence[int]) -> ndarray:
        r"""Draw the constant of the noise for samples `S x R x p` of the others, `S x R`."""
        S, R, p = samples.shape
        index = np.tile(np.arange(R), S)
        values, _ = self.processes.natural(samples.reshape(S * R, p), index)
        moments = [
            torch.stack(at.mode.level_given_sites(at.C, at.data, self.variances[1][at.replicate]))
            for at in self._at(values, index)
        ]
        mean, variance = torch.cat(moments, dim=-1).cpu().numpy().reshape(2, S, R)
        draws = Draws(as_seeds(seeds), "level of the noise")
        # Even quantiles instead of independent draws: few samples then cover the distribution.
        drawn: ndarray = mean + np.sqrt(variance) * even_normals(S, draws)
        return np.where(np.isfinite(drawn), drawn, 0.0)

    def _at(self, values: ndarray, replicates: ndarray) -> Iterator[_Noise]:
        r"""The most probable noise under hyperparameters in natural units, in chunks of rows."""
        index = self._tensor(replicates)
        parts = (self._tensor(values), self._begun[index], index)
        for some, sites, replicate in zip(*(x.split(self._chunk) for x in parts), strict=True):
            data = self.readings.rows(replicate)
            mean, noise = self._covariances(some, replicate)
            pull = pull_of_sites(noise.covariance, data, sites)
            mode = find_mode(data.masked(mean.covariance), noise.covariance, data, pull, _LAST_STEP)
            yield _Noise(mode, noise.covariance, data, replicate)


class _Noise(NamedTuple):
    r"""The most probable noise of some rows, its covariance, the readings and the replicates."""

    mode: Mode
    C: Tensor
    data: Readings
    replicate: Tensor
