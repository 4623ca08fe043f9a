r"""Sample the hyperparameters of exact Gaussian processes, all replicates of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from numpy import ndarray
from torch import Tensor
from torch.nn import Parameter

from botorch_risk.engine.fit.exact_gp import mode_kept_on_errors
from botorch_risk.engine.fit.marginal_likelihood import marginal_over_constant
from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.fit.parameters import ExactGPParts, Hyperparameter
from botorch_risk.engine.fit.starts import ROUGHER, make_starts
from botorch_risk.engine.sample.importance import NUM_STAGES, Draws, Proposal, sample_density
from botorch_risk.gradients import require_gradients
from botorch_risk.seeding import as_seeds, derive_seed
from botorch_risk.steady import sent, steady

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
        location: The mean of the hyperparameters as a fit moves them, `R x p`.
        covariance: Their covariance, `R x p x p`.
    """

    effective: Tensor
    location: Tensor
    covariance: Tensor


def sample_exact_gp(
    model: SingleTaskGP,
    *,
    seeds: int | Sequence[int],
    previous: SampledHyperparameters | None = None,
) -> SampledHyperparameters:
    r"""Sample the hyperparameters of an exact GP from their posterior, in place.

    The first batch dimension of the model holds the samples, which share their data:

        p(theta | y) ~ N(y | constant, outputscale * K + noise) * priors,    integrated over the
                                                                             constant

    with the model's own priors on the hyperparameters. A hyperparameter without a prior has a flat
    one of its logarithm, which may have no posterior. The constant of each sample is then drawn
    given the others: `c ~ N(mean, 1 / precision)`, evenly over the samples. Adaptive importance
    sampling, 384 likelihoods in four calls, has 16 to 30 times as many effective draws per second
    as differential evolution and 8 to 25 times as many as Hamiltonian steps
    (`bench/speed/engine/hyperparameter_samplers.py`). It supports what the closed form of
    `fit_exact_gp` supports. The model is left in evaluation mode.

    Source: [Rasmussen2006gp]_, Eq. (5.11) and Sec. 2.7; [Cornuet2012amis]_.

    Args:
        model: The model, of batch shape `[S]`, or `[S, R]` for `R` replicates.
        seeds: One seed per replicate. The samples of a replicate depend on its data and its seed.
        previous: The result for almost the same data, as in the last round of a loop: a warm start,
            without a search for the mode.

    Raises:
        BotorchTensorDimensionError: If the model has no batch dimension, or `previous` belongs to
            other replicates or hyperparameters.
        NotInClosedFormError: If the closed form does not support the model; the message says why.
        UnsupportedError: In `torch.inference_mode`.
        ValueError: If the number of seeds does not match the replicates.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1).expand(16, 8, 1)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> sampled = sample_exact_gp(model, seeds=0)
        >>> bool(model.covar_module.lengthscale.std() > 0), bool(sampled.effective > 50)
        (True, True)
    """
    require_gradients("sample_exact_gp")
    with mode_kept_on_errors(model):
        model.train()
        every = ExactGPParts.read(model)
        if not every.batch_shape:
            raise BotorchTensorDimensionError(
                "Expected a model with the samples as its first batch dimension. Got no batch "
                "shape."
            )
        num_samples, batch_shape = every.batch_shape[0], every.batch_shape[1:]
        generators = [
            np.random.default_rng(derive_seed(seed, "hyperparameters"))
            for seed in as_seeds(seeds, batch_shape.numel())
        ]
        density = LogPosterior(_of_first_sample(every))
        start = _at_modes(density) if previous is None else _of(previous, density)
        num_stages = NUM_STAGES if previous is None else _WARM_STAGES
        draws = _drawn(density, start, num_samples, generators, num_stages)
        density.write_samples(every.hyperparameters, draws.samples, generators)
        model.eval()
    effective = np.where(density.lost, 0.0, draws.effective)
    return SampledHyperparameters(
        torch.as_tensor(effective.reshape(batch_shape)), *map(torch.as_tensor, draws.proposal)
    )


class LogPosterior(MarginalLikelihoodObjective):
    r"""The log posterior density of the logarithms of the hyperparameters.

    As a loss it is the density at the best constant, with the logarithms' own prior densities.
    """

    def log_priors(self, values: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The log prior density of the logarithms of parameters in natural units."""
        value, gradient = super().log_priors(values, rows)
        positive = np.where(self._positive, values, 1.0)
        slope = np.where(self._positive, 1.0 / positive, 0.0)
        return value + np.log(positive).sum(axis=1), gradient + slope

    @steady()
    def log_density(self, theta: ndarray, replicates: ndarray) -> ndarray:
        r"""The log density up to a constant, integrated over the constant mean.

        Args:
            theta: Parameters, `draws x rows x p`.
            replicates: The replicate of each row.
        """
        index = np.tile(replicates, len(theta))
        rows = theta.reshape(len(index), -1)
        lower, upper = (end[index] for end in self.limits)
        inside = np.all((rows >= lower) & (rows <= upper), axis=1)
        rows = np.clip(rows, lower, upper)
        values, _ = self.natural(rows, index)
        value = self._over_constant(values, index)[:, 0] + self.log_priors(values, index)[0]
        value[~inside | self.lost[index]] = -np.inf
        found: ndarray = value.reshape(theta.shape[:2])
        return found

    @property
    def limits(self) -> tuple[ndarray, ndarray]:
        r"""The lower and upper bounds of the parameters, `R x p` each."""
        return self.bounds(np.arange(len(self.num_observed)))

    def _over_constant(self, values: ndarray, replicates: ndarray) -> ndarray:
        r"""Log likelihood, mean and precision of the constant, `rows x 3`; about the centre."""
        index, moved = (sent(each, self.like.device) for each in (replicates, values))
        found = []
        parts = zip(index.split(self._chunk), moved.to(self.like).split(self._chunk), strict=True)
        for one, part in parts:
            data = self._data.rows(one)
            marginal = marginal_over_constant(
                data.X, data.targets, self._named(data, part), self.parts.nu, data.best_constant
            )
            found.append(torch.stack(marginal, dim=-1))
        return torch.cat(found).double().cpu().numpy()

    def write_samples(
        self,
        hyperparameters: Sequence[Hyperparameter],
        samples: ndarray,
        generators: Sequence[np.random.Generator],
    ) -> None:
        r"""Write samples `S x R x p` into the hyperparameters of a model of batch shape `[S, R]`.

        The constants of a replicate are its quantiles at even steps of probability, in an order
        that is drawn, so that their mean has no noise of its own.
        """
        S, R, p = samples.shape
        index, theta = np.tile(np.arange(R), S), samples.reshape(S * R, p)
        values, _ = self.natural(theta, index)
        keep = self.lost[index]
        natural = {
            one.name: self._absolute(values, index)[:, slice_]
            for one, slice_ in zip(self.moved, self.slices, strict=True)
        }
        if self._constant is not None:
            with steady():
                _, mean, precision = self._over_constant(values, index).T
            steps = torch.special.ndtri((torch.arange(S).double() + 0.5) / S).numpy()
            normal = np.stack([each.permutation(steps) for each in generators], axis=1).flatten()
            # With outcomes of the other sign the constants have the other sign.
            sign = np.where(mean.reshape(S, R).sum(axis=0) < 0, -1.0, 1.0)[index]
            constant = mean + sign * normal / np.sqrt(precision) + self.units.centre[index]
            natural["constant"] = constant[:, None]
        for one in hyperparameters:
            one.write(natural[one.name], keep)


def _of_first_sample(every: ExactGPParts) -> ExactGPParts:
    r"""The data and the hyperparameters of the first sample: the others have the same data."""
    batch_shape = every.batch_shape[1:]
    R = batch_shape.numel()

    def first(one: Hyperparameter) -> Hyperparameter:
        raw = Parameter(one.raw.detach()[0], one.raw.requires_grad)
        return replace(one, raw=raw, batch_shape=batch_shape)

    return replace(
        every,
        batch_shape=batch_shape,
        X=every.X[:R],
        Y=every.Y[:R],
        fixed_noise=None if every.fixed_noise is None else every.fixed_noise[:R],
        hyperparameters=tuple(first(one) for one in every.hyperparameters),
    )


def _at_modes(density: LogPosterior) -> Proposal:
    r"""The highest mode that two starts find, with the inverse curvature there."""
    starts = make_starts(density, density.batch_shape, ROUGHER, 0, None)
    options: dict[str, Any] = {"max_iterations": _MAX_ITERATIONS, "gradient_tolerance": _TOLERANCE}
    minima = density.minimize(starts, options)
    R, p = len(density.num_observed), density.num_parameters
    values = np.full((starts.rows[-1] // R + 1) * R, np.inf)
    values[starts.rows] = np.where(np.isfinite(minima.value), minima.value, np.inf)
    lowest = values.reshape(-1, R).argmin(axis=0) * R + np.arange(R)
    location = minima.x[np.searchsorted(starts.rows, lowest)]
    steps = _STEP * np.concatenate([np.eye(p), -np.eye(p)])
    moved = (location + steps[:, None]).reshape(-1, p)
    with steady():
        _, gradients = density(moved, np.arange(len(moved)))
    above, below = gradients.reshape(2, p, R, p)
    curvature = ((above - below) / (2 * _STEP)).swapaxes(0, 1)
    curvature = curvature * density.num_observed[:, None, None]  # of the sum, not of the mean
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
    density: LogPosterior,
    start: Proposal,
    num_samples: int,
    generators: Sequence[np.random.Generator],
    num_stages: int,
) -> Draws:
    r"""Draws of the hyperparameters; those that do not require gradients stay as they are."""
    location, covariance = start
    lower, upper = density.limits
    free = np.flatnonzero((lower < upper).any(axis=0))
    samples = np.broadcast_to(location, (num_samples, *location.shape)).copy()
    if not free.size:
        return Draws(samples, np.full(len(location), float(num_samples)), start)

    def log_density(theta: ndarray, rows: ndarray) -> ndarray:
        whole = np.broadcast_to(location[rows], (*theta.shape[:2], location.shape[1])).copy()
        whole[..., free] = theta
        return density.log_density(whole, rows)

    inner = Proposal(location[:, free], covariance[:, free[:, None], free])
    found = sample_density(log_density, inner, num_samples, generators, num_stages)
    samples[..., free] = found.samples
    location, covariance = location.copy(), covariance.copy()
    location[:, free], covariance[:, free[:, None], free] = found.proposal
    return Draws(samples, found.effective, Proposal(location, covariance))
