r"""Confidence bounds of mean minus weighted noise variance (RAHBO).

.. [Makarova2021rahbo]
    A. Makarova, I. Usmanova, I. Bogunovic, A. Krause. Risk-averse Heteroscedastic Bayesian
    Optimization. Advances in Neural Information Processing Systems 34, 2021.
"""

from __future__ import annotations

from abc import ABC
from typing import Any

from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.arguments import (
    as_nonnegative,
    per_point,
    register_weights,
    select_mean_variance_gp,
)
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.posterior.marginals import MarginalPredictor


class _MeanVarianceBound(PointwiseAcquisitionFunction, ABC):
    r"""Bounds and posterior mean of `MV(x) = f(x) - risk_aversion * rho^2(x)`, Eq. (2)."""

    _q_twin = "qRiskAverseUpperConfidenceBound"
    beta: Tensor
    noise_beta: Tensor | None
    risk_aversion: Tensor

    def __init__(
        self,
        model: Model,
        beta: float | Tensor = 4.0,
        noise_beta: float | Tensor | None = 4.0,
        risk_aversion: float | Tensor = 1.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        clip_noise: bool = False,
    ) -> None:
        r"""Builds the bound.

        Args:
            model: A fitted mean-variance model; or a list of models from which
                `posterior_transform`, with one weight that is not 0, selects one.
            beta: Squared width of the bound of f, `mean +- sqrt(beta) sigma`. The paper's
                beta_t = 2 multiplies sigma, which is `beta=4` here.
            noise_beta: Squared width of the bound of the noise; likewise. `None` for the predicted
                noise, its posterior mean. With the log link a width of 0 is the median, which is
                lower.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha), in units of one
                over the outcome.
            posterior_transform: Applied to f alone: with BoTorch's weight of -1 f is
                minimised, and the noise is still penalised.
            X_pending: `batch_shape x n' x d` points under evaluation. Both processes are
                conditioned there on their own means.
            clip_noise: Whether the lower bound of the noise is raised to the model's
                `min_noise_variance`, or to 0. It is a valid and tighter bound; the paper
                leaves it negative, which turns the penalty into a bonus.

        Raises:
            UnsupportedError: If the model is not a `MeanVarianceGP`.
            ValueError: If a beta or `risk_aversion` is negative or not finite.
        """
        model, posterior_transform = select_mean_variance_gp(model, posterior_transform)
        super().__init__(model=model)
        register_weights(self, beta=beta, risk_aversion=risk_aversion)
        self.register_buffer(
            "noise_beta", None if noise_beta is None else as_nonnegative("noise_beta", noise_beta)
        )
        self.posterior_transform = posterior_transform
        self.clip_noise = clip_noise
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Conditions both processes on their own means at points under evaluation.

        Args:
            X_pending: `batch_shape x n' x d` points, or `None`.
        """
        super().set_X_pending(X_pending)
        model: Any = self.model
        if X_pending is not None and X_pending.shape[-2] > 0:
            model = model.condition_on_pending(self.X_pending)
        marginals = model.mean_marginals
        if self.posterior_transform is not None:
            marginals = MarginalPredictor(model.mean_model, self.posterior_transform)
        # In a tuple, the conditioned model is no part of the state.
        self._conditioned = (model, marginals)

    def upper(self, X: Tensor) -> Tensor:
        r"""Optimistic value `ucb_f(x) - risk_aversion * lcb_var(x)` (Sec. 3.3).

        Args:
            X: `batch_shape x m x d` points that do not interact.

        Returns:
            `batch_shape x m` values.
        """
        return self._bound(X, optimistic=True)

    def lower(self, X: Tensor) -> Tensor:
        r"""Pessimistic value `lcb_f(x) - risk_aversion * ucb_var(x)` (Corollary 1.1).

        Args:
            X: `batch_shape x m x d` points that do not interact.

        Returns:
            `batch_shape x m` values.
        """
        return self._bound(X, optimistic=False)

    def mean(self, X: Tensor) -> Tensor:
        r"""Posterior mean of f minus `risk_aversion` times the predicted noise variance.

        Args:
            X: `batch_shape x m x d` points that do not interact.

        Returns:
            `batch_shape x m` values.
        """
        model, marginals = self._conditioned
        noise = model.predicted_noise(X).squeeze(-1)
        return marginals(X).mean - per_point(self.risk_aversion, X) * noise

    def _bound(self, X: Tensor, optimistic: bool) -> Tensor:
        model, marginals = self._conditioned
        mean, variance = marginals(X)  # batch_shape x m
        width = per_point(self.beta, X).sqrt() * variance.sqrt()
        if self.noise_beta is None:
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            bounds = model.noise_confidence_bounds(X, per_point(self.noise_beta, X))
            noise = bounds[0] if optimistic else bounds[1]
        if self.clip_noise:
            noise = noise.clamp_min(model.noise.limits.floor or 0.0)
        return mean + (width if optimistic else -width) - per_point(self.risk_aversion, X) * noise


class RiskAverseUpperConfidenceBound(_MeanVarianceBound):
    r"""Risk-averse upper confidence bound of a mean-variance objective (RAHBO).

        score(x) = ucb_f(x) - risk_aversion * lcb_var(x)
        ucb_f(x) = mean(x) + sqrt(beta) sigma(x),   lcb_var(x) = quantile of the noise variance

    Source: [Makarova2021rahbo]_, Sec. 3.3 with Eqs. (7), (15); with the noise known, Eq. (9).
    With `risk_aversion=0` it is BoTorch's `UpperConfidenceBound` on the heteroscedastic
    model; with `noise_beta=None`, which trusts the predicted noise, it is the second stage of
    RAHBO-US. Single-outcome, q = 1: use
    `sequential=True`, or `qRiskAverseUpperConfidenceBound` for a joint batch.

    Example:
        >>> import torch
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> acqf = RiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=1.0)
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> candidate, value = optimize_acqf(acqf, bounds, q=1, num_restarts=2, raw_samples=16)
        >>> candidate.shape
        torch.Size([1, 1])
    """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Optimistic values at `batch_shape x m x d` points, `batch_shape x m`."""
        return self.upper(X)


class RiskAverseLowerConfidenceBound(_MeanVarianceBound):
    r"""Pessimistic twin of `RiskAverseUpperConfidenceBound`, for reporting.

        score(x) = lcb_f(x) - risk_aversion * ucb_var(x)

    Source: [Makarova2021rahbo]_, Corollary 1.1. Its maximiser over a domain, or over the
    evaluated points (`botorch_risk.recommend`), is the point that is good with confidence.
    """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Pessimistic values at `batch_shape x m x d` points, `batch_shape x m`."""
        return self.lower(X)


@acqf_input_constructor(RiskAverseUpperConfidenceBound, RiskAverseLowerConfidenceBound)
def construct_inputs_mean_variance_bound(
    model: Model,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
    beta: float | Tensor = 4.0,
    noise_beta: float | Tensor | None = 4.0,
    risk_aversion: float | Tensor = 1.0,
    clip_noise: bool = False,
) -> dict[str, Any]:
    r"""Arguments of the bounds, as `get_acqf_input_constructor` and Ax ask for them."""
    return {
        "model": model,
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
        "beta": beta,
        "noise_beta": noise_beta,
        "risk_aversion": risk_aversion,
        "clip_noise": clip_noise,
    }
