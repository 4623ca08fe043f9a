r"""Sample the hyperparameters of exact Gaussian processes, all replicates of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from numpy import ndarray

from botorch_risk.engine.fit.exact_gp import mode_kept_on_errors
from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.fit.starts import ROUGHER, Starts, make_starts
from botorch_risk.engine.sample.log_posterior import LogPosterior, SampledHyperparameters
from botorch_risk.gradients import require_gradients
from botorch_risk.steady import steady


@runtime_checkable
class SamplesItself(Protocol):
    r"""A model of several processes that are sampled at once."""

    def sample_in_closed_form(self, **options: Any) -> SampledHyperparameters: ...


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

    with the model's own priors on the hyperparameters. Without a prior, a hyperparameter gets a
    flat one on its logarithm, and the posterior may then not exist. The constants are drawn last,
    given the others: `c ~ N(mean, 1 / precision)`, evenly over the samples. Adaptive importance
    sampling, 384 likelihoods in four calls, has 16 to 30 times as many effective draws per second
    as differential evolution and 8 to 25 times as many as Hamiltonian steps
    (`bench/speed/engine/hyperparameter_samplers.py`). Models are supported as by the closed form of
    `fit_exact_gp`. The model is left in evaluation mode.

    Source: [Rasmussen2006gp]_, Eq. (5.11) and Sec. 2.7; [Cornuet2012amis]_.

    Args:
        model: The model, of batch shape `[S]`, or `[S, R]` for `R` replicates.
        seeds: One seed per replicate. The samples of a replicate depend on its data and its seed.
        previous: The result for almost the same data, as in the last round of a loop: a warm start,
            without a search for the mode.

    Raises:
        NotInClosedFormError: If the closed form does not support the model; the message says why.
        UnsupportedError: In `torch.inference_mode`.

    Example:
        >>> import torch
        >>> X = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1).expand(16, 8, 1)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> sampled = sample_exact_gp(model, seeds=0)
        >>> bool(model.covar_module.lengthscale.std() > 0), bool(sampled.effective > 50)
        (True, True)
    """
    require_gradients("sample_exact_gp")
    if not model.batch_shape:
        raise BotorchTensorDimensionError(
            "Expected a model with the samples as its first batch dimension. Got no batch shape."
        )
    with mode_kept_on_errors(model):
        if isinstance(model, SamplesItself):
            composed: Any = model
            found: SampledHyperparameters = composed.sample_in_closed_form(
                seeds=seeds, previous=previous
            )
            return found
        model.train()
        num_samples = model.batch_shape[0]
        density = ExactLogPosterior.of_first_sample(model)
        samples, result = density.sample(density.starts, num_samples, seeds, previous)
        # The density was of the first sample, which has the data of all; now all are written.
        every = MarginalLikelihoodObjective.of(model)
        every.write_moved(samples.reshape(-1, density.num_parameters), every.lost)
        every.draw_constants(num_samples, seeds)
        model.eval()
    return result


class ExactLogPosterior(LogPosterior, MarginalLikelihoodObjective):
    r"""The log posterior density of the logarithms of the hyperparameters.

    As a loss, it takes the density at the best constant, with the logarithms' own prior densities.
    """

    is_of_logarithms = True

    def log_priors(self, values: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The log prior density of the logarithms of parameters in natural units."""
        # d theta / d log(theta) = theta, the Jacobian.
        value, gradient = super().log_priors(values, rows)
        is_log = self.coordinates.positive
        positive = np.where(is_log, values, 1.0)
        slope = np.where(is_log, 1.0 / positive, 0.0)
        return value + np.log(positive).sum(axis=1), gradient + slope

    @steady()
    def log_density(self, theta: ndarray, replicates: ndarray) -> ndarray:
        r"""The log density up to a number, integrated over the constant mean."""
        index = np.tile(replicates, len(theta))
        rows = theta.reshape(len(index), -1)
        lower, upper = (end[index] for end in self.limits)
        inside = np.all((rows >= lower) & (rows <= upper), axis=1)
        # Not outside, where an exponential may overflow; the value there is replaced below.
        rows = np.clip(rows, lower, upper)
        values, _ = self.natural(rows, index)
        value = self.over_constant(values, index)[:, 0] + self.log_priors(values, index)[0]
        value[~inside | self.lost[index]] = -np.inf
        found: ndarray = value.reshape(theta.shape[:2])
        return found

    def starts(self) -> Starts:
        return make_starts(self, self.batch_shape, ROUGHER)
