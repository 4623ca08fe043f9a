r"""The objective of a fit of the mean and the noise to all readings, for rows of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import FitObjective, MarginalLikelihoodObjective, NotInClosedFormError
from botorch_risk.models.laplace_evidence import (
    LogLikelihood,
    Readings,
    evidence_at,
    find_mode,
    pull_of_sites,
    sites_of_spread,
)

# The log ratio of a lengthscale of the noise to the mean's: one shift, of prior mean
# SHARED_SHIFT and variance 1, that all inputs share, and the standard deviation of each input
# about it. Noise varies more slowly than the mean does, and along the same inputs.
SHARED_SHIFT, OWN_SHIFT = 0.7, 0.35
# Entries of the n x n matrices of several rows.
_COVARIANCES = ChunkSize(cpu=2**16)


class TwoProcesses:
    r"""The hyperparameters of a process of the mean and of one of the noise, in rows.

    A row holds the parameters of the mean, the parameters of the noise, and the level: the value of
    the noise process from which the search for its mode starts.
    """

    def __init__(
        self, of_mean: MarginalLikelihoodObjective, of_noise: MarginalLikelihoodObjective
    ) -> None:
        self.mean, self.noise = of_mean, of_noise
        for side in (of_mean, of_noise):
            if any(one.name not in ("lengthscale", "outputscale") for one in side.moved):
                raise NotInClosedFormError("a constant mean with a prior that is not normal")
        split, end = of_mean.num_parameters, of_mean.num_parameters + of_noise.num_parameters
        self.of_mean, self.of_noise, self.num_parameters = slice(split), slice(split, end), end + 1
        self.num_observed, self.lost = of_mean.num_observed, of_mean.lost
        self.units = of_mean.units

    @property
    def num_replicates(self) -> int:
        return len(self.num_observed)

    @property
    def lengthscales(self) -> tuple[slice, slice]:
        r"""The positions of both processes' lengthscales in a row."""
        of_mean, of_noise = (
            next(
                slice_
                for one, slice_ in zip(side.moved, side.slices, strict=True)
                if one.name == "lengthscale"
            )
            for side in (self.mean, self.noise)
        )
        start = self.of_noise.start
        return of_mean, slice(of_noise.start + start, of_noise.stop + start)

    @property
    def have_equal_inputs(self) -> bool:
        of_mean, of_noise = self.lengthscales
        return of_mean.stop - of_mean.start == of_noise.stop - of_noise.start

    def natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Hyperparameters in natural units and their derivatives, `rows x (p - 1)` each."""
        pairs = [
            self.mean.natural(theta[:, self.of_mean], replicates),
            self.noise.natural(theta[:, self.of_noise], replicates),
        ]
        values, slopes = (np.concatenate(part, axis=1) for part in zip(*pairs, strict=True))
        return values, slopes

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        sides = zip(self.mean.bounds(rows), self.noise.bounds(rows), strict=True)
        # The level is a starting point and has no bounds.
        end = np.full((len(rows), 1), np.inf)
        lower, upper = (np.concatenate(part, axis=1) for part in sides)
        return np.concatenate([lower, -end], axis=1), np.concatenate([upper, end], axis=1)

    def own(self) -> ndarray:
        r"""The models' own values and level 0, `R x p`; output scales fit raw targets' variance."""
        blocks = [self.mean.own(), self.noise.own()]
        far = ~self.units.is_standard
        for one, slice_ in zip(self.mean.moved, self.mean.slices, strict=True):
            if one.name == "outputscale":
                # Targets that are not standardised have a variance far from the initial output
                # scale of 1.
                blocks[0][far, slice_] = 2 * np.log(self.units.scale)[far, None]
        return np.concatenate([*blocks, np.zeros((self.num_replicates, 1))], axis=1)

    def write(self, theta: ndarray, keep: ndarray) -> None:
        r"""Set the hyperparameters and the constant of the noise, not the constant of the mean."""
        values, _ = self.natural(theta, np.arange(len(theta)))
        for side, part in ((self.mean, self.of_mean), (self.noise, self.of_noise)):
            for one, slice_ in zip(side.moved, side.slices, strict=True):
                one.write(values[:, part][:, slice_], keep)
        for one in self.noise.parts.hyperparameters:
            if one.name == "constant":
                one.write(theta[:, -1:], keep)


class _Objective(FitObjective):
    r"""The common part of both stages of the fit."""

    def __init__(self, processes: TwoProcesses, readings: Readings, variances: Tensor) -> None:
        self.processes, self.readings, self.variances = processes, readings, variances
        mean = processes.mean.parts
        self.like, self.batch_shape = mean.Y, mean.batch_shape
        self.num_observed, self.num_parameters = processes.num_observed, processes.num_parameters
        self.precision = float(np.finfo(np.float64).eps)
        self._chunk = _COVARIANCES.rows(mean.X.device, mean.X.shape[-2] ** 2)

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        return self.processes.bounds(rows)

    def broken_data(self) -> dict[int, str]:
        return self.processes.mean.broken_data()

    def _scaled(self, value: ndarray, gradient: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss for each observed point."""
        replicates = rows % len(self.num_observed)
        value[self.processes.lost[replicates]] = np.nan
        # One tolerance then serves tables of any size.
        scale = -1.0 / self.num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def _tensor(self, array: ndarray) -> Tensor:
        return torch.as_tensor(array, device=self.readings.means.device)


class ConstantNoiseObjective(_Objective):
    r"""The likelihood of all readings under constant noise, which the level sets."""

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        processes, replicates = self.processes, rows % len(self.num_observed)
        values, slopes = processes.mean.natural(theta[:, processes.of_mean], replicates)
        value, slope = processes.mean.log_priors(values, rows)
        index = self._tensor(replicates)
        parts = (self._tensor(values), self._tensor(theta[:, -1]), index)
        chunks = zip(*(part.split(self._chunk) for part in parts), strict=True)
        joint = torch.cat([self._likelihood(*chunk) for chunk in chunks]).cpu().numpy()
        level, variance = theta[:, -1], self.variances[1].cpu().numpy()[replicates]
        gradient = np.zeros_like(theta)
        gradient[:, processes.of_mean] = slopes * (slope + joint[:, 2:])
        gradient[:, -1] = joint[:, 1] - level / variance
        return self._scaled(value + joint[:, 0] - 0.5 * level**2 / variance, gradient, rows)

    def _likelihood(self, values: Tensor, level: Tensor, replicate: Tensor) -> Tensor:
        r"""The value, and the derivatives in the level and in the hyperparameters."""
        data = self.readings.rows(replicate)
        h = (data.level + level).unsqueeze(-1).expand_as(data.means)
        kernel = self.processes.mean.covariance(replicate, values, self.variances[0][replicate])
        part = LogLikelihood(data.masked(kernel.covariance), data)(h)
        weights = part.weights
        # (a a' - P) / 2 is the derivative of a Gaussian log density in its covariance.
        of_mean = 0.5 * (weights.unsqueeze(-1) * weights.unsqueeze(-2) - part.precision)
        slopes = kernel.gradient(data.masked(of_mean))
        return torch.cat([part.value[:, None], part.slope.sum(-1, keepdim=True), slopes], dim=-1)

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        return theta


class EvidenceObjective(_Objective):
    r"""`-(evidence + log priors) / n` of all readings, for the hyperparameters of both processes.

    Both constants are integrated out; the level and the spread of repeats only set where the search
    for a row's first mode starts. Later searches start from the mode of the best point so far.
    """

    def __init__(
        self, processes: TwoProcesses, readings: Readings, variances: Tensor, tied: bool
    ) -> None:
        super().__init__(processes, readings, variances)
        self.is_tied = tied and processes.have_equal_inputs
        # The sites at the best point of each row, and the pull: `rows x 3 x n`.
        self._mode, self._best = readings.means[:0].unsqueeze(1), np.zeros(0)

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        processes, replicates = self.processes, rows % len(self.num_observed)
        values, slopes = processes.natural(theta, replicates)
        joint, mode = self._evidence(values, theta[:, -1], rows)
        value, gradient = self._log_priors(theta, values, slopes, rows)
        value += joint[:, 0]
        gradient[:, :-1] += joint[:, 1:] * slopes
        # A worse trial of a line search leaves the start of later searches where it was.
        better = value >= self._best[rows]  # False for NaN
        self._best[rows[better]] = value[better]
        index, kept = self._tensor(rows), self._tensor(better)[:, None, None]
        self._mode[index] = torch.where(kept, mode, self._mode[index])
        return self._scaled(value, gradient, rows)

    def _log_priors(
        self, theta: ndarray, values: ndarray, slopes: ndarray, rows: ndarray
    ) -> tuple[ndarray, ndarray]:
        r"""The log prior density, `rows`, and its gradient in the parameters, `rows x p`."""
        processes, value, gradient = self.processes, np.zeros(len(theta)), np.zeros_like(theta)
        for side, part in (
            (processes.mean, processes.of_mean),
            (processes.noise, processes.of_noise),
        ):
            density, slope = side.log_priors(values[:, part], rows)
            value += density
            gradient[:, part] = slope * slopes[:, part]
        if self.is_tied:
            of_mean, of_noise = processes.lengthscales
            density, slope = log_density_of_shifts(theta[:, of_noise] - theta[:, of_mean])
            value += density
            gradient[:, of_noise] += slope
            gradient[:, of_mean] -= slope
        return value, gradient

    def _evidence(self, values: ndarray, levels: ndarray, rows: ndarray) -> tuple[ndarray, Tensor]:
        r"""The evidence and its derivatives in natural units, `rows x p`, and its modes."""
        index, replicates = self._tensor(rows), self._tensor(rows % len(self.num_observed))
        sites = self._known_sites(self._tensor(levels), index, replicates, rows.max())
        parts = (self._tensor(values), sites, replicates)
        chunks = zip(*(part.split(self._chunk) for part in parts), strict=True)
        results, pulls = zip(*(self._evidence_of(*chunk) for chunk in chunks), strict=True)
        return torch.cat(results).cpu().numpy(), torch.cat(pulls)

    def _known_sites(self, level: Tensor, index: Tensor, replicates: Tensor, last: int) -> Tensor:
        r"""The starts of the searches for modes, `rows x 2 x n`."""
        missing, n = last + 1 - len(self._mode), self._mode.shape[-1]
        if missing > 0:
            new = self._mode.new_full((missing, 3, n), torch.nan)
            self._mode = torch.cat([self._mode.expand(-1, 3, -1), new])
            self._best = np.concatenate([self._best, np.full(missing, -np.inf)])
        known, data = self._mode[index, :2], self.readings.rows(replicates)
        return torch.where(known.isnan(), sites_of_spread(data, data.level + level), known)

    def _evidence_of(
        self, values: Tensor, sites: Tensor, replicate: Tensor
    ) -> tuple[Tensor, Tensor]:
        data = self.readings.rows(replicate)
        mean, noise = self._covariances(values, replicate)
        pull = pull_of_sites(noise.covariance, data, sites)
        mode = find_mode(data.masked(mean.covariance), noise.covariance, data, pull)
        evidence = evidence_at(mode, noise.covariance, data)
        slopes = [mean.gradient(data.masked(evidence.of_mean)), noise.gradient(evidence.of_noise)]
        there = torch.cat([mode.sites(data), mode.pull.unsqueeze(1)], dim=1)
        return torch.cat([evidence.value.unsqueeze(-1), *slopes], dim=-1), there

    def _covariances(self, values: Tensor, replicate: Tensor) -> list[Any]:
        r"""The covariances of the mean and of the noise, with the variances of their constants."""
        processes = self.processes
        sides = (processes.mean, processes.noise)
        parts = (processes.of_mean, processes.of_noise)
        return [
            side.covariance(replicate, values[:, part], variance[replicate])
            for side, part, variance in zip(sides, parts, self.variances, strict=True)
        ]

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        index = self._tensor(np.arange(len(theta)) if rows is None else rows)
        # With h - m = C v, the posterior mean of a constant of prior variance V in C is V 1' v.
        level = (self.variances[1] * self._mode[index, 2].sum(-1)).cpu().numpy()
        theta = np.concatenate([theta[:, :-1], level[:, None]], axis=1)
        self.processes.write(theta, keep)
        return theta


def log_density_of_shifts(shifts: ndarray) -> tuple[ndarray, ndarray]:
    r"""The log density of logarithms of ratios of lengthscales, `rows x d`, and its gradient."""
    shared = shifts.mean(axis=1, keepdims=True)
    own = (shifts - shared) / OWN_SHIFT
    # Without the normalising constants, on which neither an optimum nor a draw depends.
    value = -0.5 * (shared[:, 0] - SHARED_SHIFT) ** 2 - 0.5 * (own**2).sum(axis=1)
    return value, -(shared - SHARED_SHIFT) / shifts.shape[1] - own / OWN_SHIFT
