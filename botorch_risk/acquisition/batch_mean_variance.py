r"""The joint form of the risk-averse upper confidence bound."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.utils.transforms import match_batch_shape, t_batch_mode_transform
from torch import Tensor

from botorch_risk.acquisition.mean_variance import select_mean_variance_gp
from botorch_risk.acquisition.pointwise import (
    as_nonnegative,
    construct_from_own_arguments,
    register_weights,
)
from botorch_risk.models.learnt_noise import variances_in_sequence
from botorch_risk.posterior.inputs import check_points


@construct_from_own_arguments
class qRiskAverseUpperConfidenceBound(AcquisitionFunction):
    r"""Joint batch of q points for a mean-variance objective.

        score(X) = 1 / q sum_j [ mean_j + sqrt(beta) sigma_j - risk_aversion lcb_var_j ]

    `sigma_j` is the standard deviation of f at point j, and `lcb_var_j` the lower bound of the
    noise variance at `noise_beta`, once the points before j (pending ones first) were repeated
    and came out as expected: the hallucinated observations of batch UCB [Desautels2014batch]_.
    A term is what `RiskAverseUpperConfidenceBound` with the points before j pending says of
    point j, so that `sequential=True` maximises the same sum greedily, and q = 1 is the analytic
    bound of Algorithm 1 of [Makarova2021rahbo]_.

    Every point of a batch is evaluated, so that every point pays for its risk. (A maximum over
    the batch, as in BoTorch's `qUpperConfidenceBound`, would be indifferent to all points but
    the best.) Where no bound of the noise is negative, always with the log link and with
    `clip_noise=True`, the score never rises with the aversion. A sum over points has a local
    optimum for each combination of theirs: give `optimize_acqf` about 1,000 `raw_samples` for
    q = 4, or start it from the sequential batch by `batch_initial_conditions`.

    Example:
        >>> import torch
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> acqf = qRiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=1.0)
        >>> acqf(torch.rand(5, 3, 1, dtype=torch.double)).shape  # five batches of q = 3
        torch.Size([5])
    """

    beta: Tensor
    noise_beta: Tensor | None
    risk_aversion: Tensor

    def __init__(
        self,
        model: Model,
        beta: float = 4.0,
        noise_beta: float | None = 4.0,
        risk_aversion: float = 1.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        clip_noise: bool = False,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            model: A fitted mean-variance model; or a list of models from which
                `posterior_transform`, with one weight that is not 0, selects one.
            beta: Squared width of the bound of f (the paper's beta_t, squared).
            noise_beta: Squared width of the bound of the noise (the paper's beta^var_t, squared);
                `None` for the predicted noise.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
            posterior_transform: A `ScalarizedPosteriorTransform` of f alone (BoTorch's sign of
                minimisation).
            X_pending: `n' x d` points under evaluation.
            clip_noise: Whether the lower bound of the noise is raised to the model's
                `min_noise_variance`, or to 0.

        Raises:
            UnsupportedError: If the model is not a `MeanVarianceGP`, or the transform is another.
            ValueError: If a beta or `risk_aversion` is negative or not finite.
        """
        model, posterior_transform = select_mean_variance_gp(model, posterior_transform)
        if type(posterior_transform) not in (type(None), ScalarizedPosteriorTransform):
            raise UnsupportedError(
                "Expected `posterior_transform` to be a `ScalarizedPosteriorTransform` or None. "
                f"Got {type(posterior_transform).__name__}."
            )
        super().__init__(model=model)
        register_weights(self, beta=beta, risk_aversion=risk_aversion)
        self.register_buffer(
            "noise_beta", None if noise_beta is None else as_nonnegative("noise_beta", noise_beta)
        )
        self.posterior_transform = posterior_transform
        self.clip_noise = clip_noise
        self.set_X_pending(X_pending)

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Values of joint batches.

        Args:
            X: `batch_shape x q x d` candidates.

        Returns:
            `batch_shape` values.
        """
        check_points("X", X, self.model)
        q = X.shape[-2]
        if self.X_pending is not None:
            X = torch.cat([match_batch_shape(self.X_pending, X), X], dim=-2)
        bound = self._optimistic_means(X) - self.risk_aversion.to(X) * self._optimistic_noise(X)
        return bound[..., -q:].mean(dim=-1)

    def _optimistic_means(self, X: Tensor) -> Tensor:
        r"""Upper bounds `batch_shape x q` of f, each after the points before it."""
        model: Any = self.model
        transform: Any = self.posterior_transform
        posterior = model.mean_model.posterior(X, posterior_transform=transform)
        noise = model.noise_of_means(X, model.num_repeats).squeeze(-1)
        if transform is not None:
            noise = transform.weights.to(noise).square() * noise
        variance = variances_in_sequence(posterior.distribution.covariance_matrix, noise)
        return posterior.mean.squeeze(-1) + (self.beta.to(X) * variance).sqrt()

    def _optimistic_noise(self, X: Tensor) -> Tensor:
        r"""Lower bounds `batch_shape x q` of the noise, each after the points before it."""
        model: Any = self.model
        counts = torch.as_tensor(model.num_repeats).to(X)
        beta = None if self.noise_beta is None else self.noise_beta.to(X)
        noise, _ = model.noise.bounds_in_sequence(X, beta, counts)
        if beta is None:
            noise = model.noise.limits.apply(noise).clamp_min(0.0)
        return noise.clamp_min(model.noise.limits.floor or 0.0) if self.clip_noise else noise
