r"""Predictions of a process of the mean and a process of its noise."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior, Posterior, TransformedPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.models import GP
from torch import Tensor

from botorch_risk.gradients import predicting_with
from botorch_risk.models.fixed_noise import is_one_to_many, least_noise, transform_variance
from botorch_risk.models.noise_process import NoiseProcess
from botorch_risk.posterior.marginals import MarginalPredictor, root_of_beta
from botorch_risk.posterior.t_batch import as_points, check_points


class MeanVariancePredictions(Model, GP, ABC):
    r"""Predictions of a mean-variance model, in the units of the outcome.

    Attributes:
        mean_model: The process of the mean, whose noise is given by Eq. (16) of
            [Makarova2021rahbo]_.
        noise: The process of the noise variance of one repeat.
        noise_beta: Squared width of the upper bound of the noise in Eq. (16).
        train_counts: `batch_shape x n x 1` numbers of repeats.
    """

    mean_model: Any
    noise: NoiseProcess
    noise_beta: float
    train_counts: Tensor
    _mean_marginals: MarginalPredictor
    _warnings: list[str]

    @property
    def mean_marginals(self) -> MarginalPredictor:
        r"""Marginal moments of f at points that do not interact; see `MarginalPredictor`."""
        self._require_noise()
        return self._mean_marginals

    @property
    def likelihood(self) -> FixedNoiseGaussianLikelihood:
        r"""The likelihood of the mean process, so that the usual line of fitting works."""
        return self.mean_model.likelihood

    @property
    def mean_module(self) -> Any:
        r"""The prior mean of f, as on `SingleTaskGP`."""
        return self.mean_model.mean_module

    @property
    def covar_module(self) -> Any:
        r"""The kernel of f, as on `SingleTaskGP`."""
        return self.mean_model.covar_module

    @property
    def outcome_transform(self) -> Any:
        r"""How f is scaled, as on `SingleTaskGP`; no such attribute without a transform."""
        return self.mean_model.outcome_transform

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        r"""The training inputs of the mean process."""
        return self.mean_model.train_inputs

    @property
    def train_targets(self) -> Tensor:
        r"""The training targets of the mean process."""
        return self.mean_model.train_targets

    @property
    def batch_shape(self) -> torch.Size:
        r"""The batch shape of both processes."""
        return self.mean_model.batch_shape

    @property
    def num_outputs(self) -> int:
        r"""One: the mean. The noise is read through `noise_posterior`."""
        return 1

    @property
    def noise_model(self) -> Any:
        r"""The model of the noise, on the scale of its link."""
        return self.noise.model

    @property
    def num_repeats(self) -> int:
        r"""The median number of repeats of the rows with outcomes, assumed for future rows."""
        counts = self.train_counts[self.train_counts > 0]
        return int(counts.median()) if counts.numel() else 1

    def forward(self, X: Tensor) -> MultivariateNormal:
        r"""The distribution of the mean process at X, in its own units (GPyTorch's protocol)."""
        self._require_noise()
        return self.mean_model(X)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior | TransformedPosterior:
        r"""The posterior of f, or of one repeat.

        Args:
            X: `batch_shape x q x d` inputs.
            output_indices: `None` or `[0]`.
            observation_noise: If True, adds the predicted noise of one repeat at X. A tensor
                `batch_shape x q x 1` is added as it is, in the units of the transformed outcome.
            posterior_transform: Applied to the posterior.

        Returns:
            A posterior over `batch_shape x q x 1` values.
        """
        if output_indices not in (None, [0]):
            raise UnsupportedError(f"Expected `output_indices` None or [0]. Got {output_indices}.")
        X = as_points(X, self)
        check_points("X", X, self)
        self._require_noise()
        for warning in self._warnings:
            warnings.warn(warning, InputDataWarning, stacklevel=2)
        if observation_noise is True:
            observation_noise = transform_variance(self.mean_model, self.predicted_noise(X))
        with predicting_with(self.mean_model):
            return self.mean_model.posterior(
                X, observation_noise=observation_noise, posterior_transform=posterior_transform
            )

    def noise_posterior(self, X: Tensor) -> Posterior:
        r"""The posterior of the noise variance of one repeat at `batch_shape x q x d` inputs.

        Gaussian with the identity link, log-normal with the log link.
        """
        X = as_points(X, self)
        check_points("X", X, self)
        return self.noise.posterior(X)

    def predicted_noise(self, X: Tensor) -> Tensor:
        r"""Posterior mean of the noise variance within its limits, and at least 0.

        Args:
            X: `batch_shape x q x d` inputs.

        Returns:
            `batch_shape x q x 1` variances of one repeat; as many as `posterior` has values where
            an input transform makes several inputs of one.
        """
        if is_one_to_many(self.noise.model):
            posterior: Any = self.noise.posterior(X)
            expected = posterior.mean
        else:
            expected = self.noise.expected(X).unsqueeze(-1)
        return self.noise.limits.apply(expected).clamp_min(0.0)

    def confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of f, `mean -+ sqrt(beta) * standard deviation` (Eq. 7).

        Args:
            X: `batch_shape x m x d` points that do not interact.
            beta: Squared width, one for all, one a replicate (`batch_shape`) or one a point
                (`batch_shape x m`); the paper's beta_t multiplies sigma.

        Returns:
            Two `batch_shape x m` tensors.
        """
        mean, variance = self.mean_marginals(X)
        width = variance.sqrt() * root_of_beta(beta, mean, self.batch_shape)
        return mean - width, mean + width

    def noise_confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the noise variance of one repeat (Eqs. 14, 15).

        The bounds are quantiles: with the log link the exponentials of the bounds of the process.
        With the identity link the lower bound may be negative, as in the paper.

        Args:
            X: `batch_shape x m x d` points that do not interact.
            beta: Squared width, in the same forms; the paper's beta^var_t multiplies sigma.

        Returns:
            Two `batch_shape x m` tensors.
        """
        return self.noise.bounds(X, beta)

    def noise_of_means(self, X: Tensor, num_repeats: Tensor | int) -> Tensor:
        r"""The cautious noise variance of a mean of repeats, Eq. (16), as the mean process uses it.

        It is at least 1e-8 of the variance of the outcomes in double precision, and 1e-4 in single
        precision: a covariance with less noise may have no Cholesky factor.

        Args:
            X: `batch_shape x n x d` inputs.
            num_repeats: The number of repeats, broadcastable to `batch_shape x n x 1`.

        Returns:
            `batch_shape x n x 1` variances, > 0.

        Raises:
            ValueError: If the upper bound of the noise is not positive and no floor is set.
        """
        noise = self.noise.upper(X, self.noise_beta)
        if not (noise > 0).all():
            raise ValueError(
                "Expected a positive upper bound of the noise variance at every point. Got "
                f"{noise.min().item():.3g}; fit the model, set `min_noise_variance`, or use the "
                "log link."
            )
        return torch.maximum(noise / num_repeats, least_noise(self.mean_model))

    @abstractmethod
    def _require_noise(self) -> None:
        r"""Raises unless Eq. (16) is positive at the training points."""
