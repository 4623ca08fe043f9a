r"""Scales on which a Gaussian process models the noise variance.

A link maps the variance to the scale of the process. It is increasing, so a quantile of the process
maps to the quantile of the variance, and confidence bounds stay exact. The observations are sample
variances `s^2` of k repeats.

On the logarithmic scale, repeats that are all equal (s^2 = 0, as rounded instruments give) count
as censored below the smallest positive sample variance of the data. On the identity scale
s^2 = 0 is an observation like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from botorch.models.transforms.utils import norm_to_lognorm_mean, norm_to_lognorm_variance
from botorch.posteriors import Posterior, TransformedPosterior
from torch import Tensor

from botorch_risk.models.outcome_scales import MeanScale, ObservedScale, SignalScale

Array = Any  # a Tensor or an ndarray


class VarianceLink(ABC):
    r"""An increasing map between the noise variance and the scale of its process."""

    @abstractmethod
    def apply(self, variances: Tensor) -> Tensor:
        r"""Maps the variance to the scale of the process."""

    @abstractmethod
    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:
        r"""Unbiased observations of the linked variance from sample variances of k repeats."""

    @abstractmethod
    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:
        r"""Variance of the observations for Gaussian repeats of the given true variances."""

    @abstractmethod
    def inverse(self, values: Tensor) -> Tensor:
        r"""Maps the scale of the process to the variance."""

    @abstractmethod
    def inverse_and_slope(self, values: Array) -> tuple[Array, Array]:
        r"""`inverse` and its derivative, of a tensor or an array."""

    @abstractmethod
    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The expected variance from the moments of the process."""

    @abstractmethod
    def posterior(self, posterior: Posterior) -> Posterior:
        r"""The posterior of the variance from the posterior of the process."""

    @abstractmethod
    def outcome_transform(
        self, observed: Tensor, noise: Tensor | None, resolution: Tensor
    ) -> ObservedScale:
        r"""The scaling of the process's observations.

        Args:
            observed: `batch_shape x n x 1`, True for an observation, False for a filler.
            noise: `batch_shape x n x 1` variances of the observations; `None` if inferred.
            resolution: `batch_shape x 1 x 1`, the smallest sample variance that the data resolve.
        """


class IdentityLink(VarianceLink):
    r"""The process models the variance itself, as the paper does (RAHBO, Eqs. 13-15, 32-33).

    `s^2` is unbiased with variance `2 rho^4 / (k - 1)` for Gaussian repeats.
    """

    def apply(self, variances: Tensor) -> Tensor:
        return variances

    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:
        return variances

    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:
        return 2 * variances.square() / (counts - 1)

    def inverse(self, values: Tensor) -> Tensor:
        return values

    def inverse_and_slope(self, values: Array) -> tuple[Array, Array]:
        # Ones in the form of the values, a tensor or an array.
        return values, 0 * values + 1

    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:
        return mean

    def posterior(self, posterior: Posterior) -> Posterior:
        return posterior

    def outcome_transform(
        self, observed: Tensor, noise: Tensor | None, resolution: Tensor
    ) -> ObservedScale:
        return MeanScale(observed, resolution)


class LogLink(VarianceLink):
    r"""The process models the logarithm of the variance.

    For Gaussian repeats `(k - 1) s^2 / rho^2` is chi-square with `k - 1` degrees of
    freedom, so that `log s^2` has known bias and known variance, whatever `rho` is:

        E log s^2 = log rho^2 + digamma((k - 1) / 2) - log((k - 1) / 2)
        Var log s^2 = trigamma((k - 1) / 2)
    """

    def apply(self, variances: Tensor) -> Tensor:
        return variances.log()

    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:
        half = (counts - 1) / 2
        return variances.log() - half.digamma() + half.log()

    def censored_observations(
        self, limits: Tensor, counts: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""Gaussian observations that replace `s^2 <= limit`, and their variances.

        Identical repeats have no logarithm. They show that the sample variance is below the
        resolution of the data, which has probability

            P(s^2 <= limit | rho^2) = F((k - 1) limit / rho^2),   F chi-square with k - 1 degrees.

        The observation is the Gaussian factor that turns the population of log noise variances,
        N(mean, variance), into one with the mean and variance of its product with that
        probability (a site of expectation propagation whose cavity is the population).
        """
        # Gauss-Hermite for the weight exp(-x^2 / 2), which is the standard normal density's.
        nodes, weights = (
            torch.as_tensor(part).to(counts) for part in np.polynomial.hermite_e.hermegauss(64)
        )
        h = mean.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * nodes  # ... x 64
        half = ((counts - 1) / 2).unsqueeze(-1).expand_as(h)
        log_x = half.log() + limits.log().unsqueeze(-1) - h
        probability = torch.special.gammainc(half, log_x.exp())
        # The incomplete gamma function underflows where its leading term does not.
        leading = half * log_x - (half + 1).lgamma()
        tiny = torch.finfo(h.dtype).tiny
        log_probability = probability.clamp_min(tiny).log().where(probability > tiny, leading)
        # As logarithms: a limit far below the population would leave 0 / 0.
        weights = (weights.log() + log_probability).softmax(dim=-1)
        deviation = h - mean.unsqueeze(-1)
        shift = (weights * deviation).sum(dim=-1)
        tilted = (weights * (deviation - shift.unsqueeze(-1)).square()).sum(dim=-1)
        # The site is the tilted normal divided by the population. The factor is log-concave, so
        # its precision is positive up to rounding.
        noise = 1 / (1 / tilted - 1 / variance).clamp_min(1e-6 / variance)
        return mean + shift * (1 + noise / variance), noise

    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:
        return torch.polygamma(1, (counts - 1) / 2)

    def precision(self, counts: Tensor) -> Tensor:
        r"""One over the variance of an observation of `counts` repeats; 0 for fewer than two."""
        precision = 1 / self.observation_noise(counts, counts.clamp_min(2))
        return precision.where(counts > 1, torch.zeros_like(precision))

    def inverse(self, values: Tensor) -> Tensor:
        return values.exp()

    def inverse_and_slope(self, values: Array) -> tuple[Array, Array]:
        variance = values.exp() if isinstance(values, Tensor) else np.exp(values)
        return variance, variance

    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:
        return norm_to_lognorm_mean(mean, variance)

    def posterior(self, posterior: Posterior) -> Posterior:
        return TransformedPosterior(
            posterior=posterior,
            sample_transform=torch.exp,
            mean_transform=norm_to_lognorm_mean,
            variance_transform=norm_to_lognorm_variance,
        )

    def outcome_transform(
        self, observed: Tensor, noise: Tensor | None, resolution: Tensor
    ) -> ObservedScale:
        return SignalScale(observed, noise)


LINKS: dict[str, VarianceLink] = {"identity": IdentityLink(), "log": LogLink()}
