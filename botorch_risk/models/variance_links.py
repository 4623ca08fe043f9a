r"""The scale on which a Gaussian process models the noise variance.

A link maps the variance to the scale that the process lives on. Both are increasing, so a
quantile of the process maps to the quantile of the variance, and confidence bounds stay
exact. The observations are sample variances `s^2` of k repeats.

On the logarithmic scale repeats without any spread (s^2 = 0, as rounded instruments give) count as
censored: their sample variance is known to be below the smallest positive one of the data. On the
identity scale s^2 = 0 is an observation like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from botorch.models.transforms.utils import norm_to_lognorm_mean, norm_to_lognorm_variance
from botorch.posteriors import Posterior, TransformedPosterior
from torch import Tensor

from botorch_risk.models.outcome_scales import MeanScale, ObservedScale, SignalScale


class VarianceLink(ABC):
    r"""An increasing map between the noise variance and the scale of its process."""

    @abstractmethod
    def apply(self, variances: Tensor) -> Tensor:
        r"""From the variance to the scale of the process."""

    @abstractmethod
    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:
        r"""Unbiased observations of the linked variance from sample variances of k repeats."""

    @abstractmethod
    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:
        r"""Variance of the observations for Gaussian repeats of the given true variances."""

    @abstractmethod
    def inverse(self, values: Tensor) -> Tensor:
        r"""From the scale of the process to the variance."""

    @abstractmethod
    def inverse_slope(self, variances: Tensor) -> Tensor:
        r"""The derivative of `inverse`, from the variances that it gives."""

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
        r"""How the process scales its observations.

        Args:
            observed: `batch_shape x n x 1`, True where an entry is an observation.
            noise: `batch_shape x n x 1` variances of the observations; `None` where inferred.
            resolution: `batch_shape x 1 x 1`, the least sample variance that the data resolve.
        """


class IdentityLink(VarianceLink):
    r"""The process models the variance itself, as the paper does (RAHBO, Eqs. 13-15, 32-33).

    `s^2` is unbiased with variance `2 rho^4 / (k - 1)` for Gaussian repeats; it is
    heavy-tailed for k = 2 and 3, so it is scaled by its mean, not by its standard deviation.
    """

    def apply(self, variances: Tensor) -> Tensor:  # noqa: D102
        return variances

    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        return variances

    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        return 2 * variances.square() / (counts - 1)

    def inverse(self, values: Tensor) -> Tensor:  # noqa: D102
        return values

    def inverse_slope(self, variances: Tensor) -> Tensor:  # noqa: D102
        return torch.ones_like(variances)

    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:  # noqa: D102
        return mean

    def posterior(self, posterior: Posterior) -> Posterior:  # noqa: D102
        return posterior

    def outcome_transform(  # noqa: D102
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

    def apply(self, variances: Tensor) -> Tensor:  # noqa: D102
        return variances.log()

    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        half = (counts - 1) / 2
        return variances.log() - half.digamma() + half.log()

    def censored_observations(
        self, limits: Tensor, counts: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""Gaussian observations that stand for `s^2 <= limit`.

        Repeats without any spread have no logarithm. They show that the sample variance is
        below what the data resolve, which has probability

            P(s^2 <= limit | rho^2) = F((k - 1) limit / rho^2),   F chi-square with k - 1 degrees.

        The observation is the Gaussian factor that turns the population of log noise variances,
        N(mean, variance), into one with the mean and variance of its product with that
        probability (a site of expectation propagation whose cavity is the population).

        Args:
            limits: The least sample variance that the data resolve, > 0.
            counts: Numbers of repeats, at least 2.
            mean: Mean of the log noise variance over the rows.
            variance: Its variance over the rows.

        Returns:
            Observations of the log noise variance and their variances.
        """
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
        weights = (weights.log() + log_probability).softmax(dim=-1)
        deviation = h - mean.unsqueeze(-1)
        shift = (weights * deviation).sum(dim=-1)
        tilted = (weights * (deviation - shift.unsqueeze(-1)).square()).sum(dim=-1)
        # The factor is log-concave, so that its precision is positive up to rounding.
        noise = 1 / (1 / tilted - 1 / variance).clamp_min(1e-6 / variance)
        return mean + shift * (1 + noise / variance), noise

    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        return torch.polygamma(1, (counts - 1) / 2)

    def precision(self, counts: Tensor) -> Tensor:
        r"""One over the variance of an observation; 0 of fewer than two repeats.

        Args:
            counts: Numbers of repeats, of any shape.
        """
        precision = 1 / self.observation_noise(counts, counts.clamp_min(2))
        return precision.where(counts > 1, torch.zeros_like(precision))

    def inverse(self, values: Tensor) -> Tensor:  # noqa: D102
        return values.exp()

    def inverse_slope(self, variances: Tensor) -> Tensor:  # noqa: D102
        return variances

    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:  # noqa: D102
        return norm_to_lognorm_mean(mean, variance)

    def posterior(self, posterior: Posterior) -> Posterior:  # noqa: D102
        return TransformedPosterior(
            posterior=posterior,
            sample_transform=torch.exp,
            mean_transform=norm_to_lognorm_mean,
            variance_transform=norm_to_lognorm_variance,
        )

    def outcome_transform(  # noqa: D102
        self, observed: Tensor, noise: Tensor | None, resolution: Tensor
    ) -> ObservedScale:
        return SignalScale(observed, noise)


LINKS: dict[str, VarianceLink] = {"identity": IdentityLink(), "log": LogLink()}
