r"""The scale on which a Gaussian process models the noise variance.

A link maps the variance to the scale that the process lives on. Both are increasing, so a
quantile of the process maps to the quantile of the variance, and confidence bounds stay
exact. The observations are sample variances `s^2` of k repeats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from botorch.exceptions.errors import InputDataError
from botorch.models.transforms.outcome import Standardize
from botorch.models.transforms.utils import norm_to_lognorm_mean, norm_to_lognorm_variance
from botorch.posteriors import Posterior, TransformedPosterior
from torch import Tensor


class VarianceLink(ABC):
    r"""An increasing map between the noise variance and the scale of its process."""

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
    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The expected variance where the process has these moments."""

    @abstractmethod
    def posterior(self, posterior: Posterior) -> Posterior:
        r"""The posterior of the variance from that of the process."""

    @abstractmethod
    def outcome_transform(self, batch_shape: torch.Size) -> Standardize:
        r"""How the process scales its observations."""


class IdentityLink(VarianceLink):
    r"""The process models the variance itself, as the paper does (RAHBO, Eqs. 13-15, 32-33).

    `s^2` is unbiased with variance `2 rho^4 / (k - 1)` for Gaussian repeats; it is
    heavy-tailed for k = 2 and 3, so it is scaled by its mean, not by its standard deviation.
    """

    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        return variances

    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        return 2 * variances.square() / (counts - 1)

    def inverse(self, values: Tensor) -> Tensor:  # noqa: D102
        return values

    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:  # noqa: D102
        return mean

    def posterior(self, posterior: Posterior) -> Posterior:  # noqa: D102
        return posterior

    def outcome_transform(self, batch_shape: torch.Size) -> Standardize:  # noqa: D102
        return _ScaleByMean(m=1, batch_shape=batch_shape)


class LogLink(VarianceLink):
    r"""The process models the logarithm of the variance.

    For Gaussian repeats `(k - 1) s^2 / rho^2` is chi-square with `k - 1` degrees of
    freedom, so that `log s^2` has known bias and known variance, whatever `rho` is:

        E log s^2 = log rho^2 + digamma((k - 1) / 2) - log((k - 1) / 2)
        Var log s^2 = trigamma((k - 1) / 2)
    """

    def observations(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        if (variances <= 0).any():
            *replicate, row, _ = (variances <= 0).nonzero()[0].tolist()
            where = f"row {row}" + (f" of replicate {tuple(replicate)}" if replicate else "")
            raise InputDataError(
                "Expected positive sample variances on the logarithmic scale. Got repeats without "
                f"any spread in {where} of the rows with repeats; set `min_noise_variance`."
            )
        half = (counts - 1) / 2
        return variances.log() - half.digamma() + half.log()

    def observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor:  # noqa: D102
        return torch.polygamma(1, (counts - 1) / 2)

    def inverse(self, values: Tensor) -> Tensor:  # noqa: D102
        return values.exp()

    def mean(self, mean: Tensor, variance: Tensor) -> Tensor:  # noqa: D102
        return norm_to_lognorm_mean(mean, variance)

    def posterior(self, posterior: Posterior) -> Posterior:  # noqa: D102
        return TransformedPosterior(
            posterior=posterior,
            sample_transform=torch.exp,
            mean_transform=norm_to_lognorm_mean,
            variance_transform=norm_to_lognorm_variance,
        )

    def outcome_transform(self, batch_shape: torch.Size) -> Standardize:  # noqa: D102
        return Standardize(m=1, batch_shape=batch_shape)


class _ScaleByMean(Standardize):
    r"""Centres outcomes and divides them by their mean instead of their standard deviation."""

    def forward(
        self, Y: Tensor, Yvar: Tensor | None = None, X: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if self.training:
            self._validate_training_inputs(Y=Y, Yvar=Yvar)
            self.means = Y.mean(dim=-2, keepdim=True)
            self.stdvs = self.means.where(self.means > 0, torch.ones_like(self.means))
            self._stdvs_sq = self.stdvs.square()
            self._is_trained = torch.tensor(True)
        Y = (Y - self.means) / self.stdvs
        return Y, None if Yvar is None else Yvar / self._stdvs_sq


LINKS: dict[str, VarianceLink] = {"identity": IdentityLink(), "log": LogLink()}
