r"""Confidence bounds of mean minus weighted noise variance (RAHBO)."""

from __future__ import annotations

from abc import ABC
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    as_nonnegative,
    construct_from_own_arguments,
    differentiated,
    per_point,
    register_weights,
)
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.posterior.inputs import as_points
from botorch_risk.posterior.joint_bounds import JointBounds
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
            beta: Squared width of the bound of f, `mean +- sqrt(beta) sigma`, a number or
                `batch_shape`. The paper's beta_t = 2 multiplies sigma, which is `beta=4` here.
            noise_beta: Squared width of the bound of the noise, likewise a number or `batch_shape`.
                `None` for the predicted noise, its posterior mean. With the log link a width of 0
                is the median, which is lower.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha), in units of one
                over the outcome; a number or `batch_shape`.
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

    def _condition(self, X_pending: Tensor | None) -> tuple[MeanVarianceGP, JointBounds]:
        r"""The model given its own means at pending points, and the bounds of f and its noise."""
        model: Any = self.model
        if X_pending is not None:
            model = model.condition_on_pending(X_pending)
        marginals = model.mean_marginals
        if self.posterior_transform is not None:
            marginals = MarginalPredictor(model.mean_model, self.posterior_transform)
        return model, JointBounds([marginals, model.noise.marginals])

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
        X = as_points(X, self.model)
        model, bounds = self._conditioned
        noise = model.predicted_noise(X).squeeze(-1)
        return bounds.predictors[0](X).mean - per_point(self.risk_aversion, X) * noise

    def observed(self, X: Tensor) -> Tensor:
        r"""Sample mean of f minus `risk_aversion` times the sample variance.

        Args:
            X: `batch_shape x m x d` points that the model was built from.

        Returns:
            `batch_shape x m` values; minus infinity where one repeat shows no variance, unless
            the weight of the variance is 0.

        Raises:
            InputDataError: If the model was not built from a point.
        """
        model: Any = self.model
        X = as_points(X, self.model)
        same = (X.unsqueeze(-2) == model.train_X.unsqueeze(-3)).all(dim=-1)  # ... x m x n_train
        if not same.any(dim=-1).all():
            raise InputDataError(
                "Expected points that the model was built from, for their observed values. "
                f"Got {(~same.any(dim=-1)).sum()} others."
            )
        values = model.train_means.squeeze(-1)
        if self.posterior_transform is not None:
            values = self.posterior_transform.evaluate(model.train_means)
        aversion = per_point(self.risk_aversion, X)
        penalty = aversion * model.train_variances.squeeze(-1)
        # Where there is no aversion, points of a single repeat count too.
        values = values - penalty.where(aversion > 0, 0.0)
        values = values.nan_to_num(nan=-torch.inf)
        rows = same.to(torch.uint8).argmax(dim=-1)  # the first of equal rows
        return values.expand(*rows.shape[:-1], -1).gather(-1, rows)

    def _widths(self, X: Tensor, optimistic: bool) -> list[Tensor]:
        r"""Standard deviations from the mean of f to its bound; of the noise, if it has one."""
        betas = [self.beta] if self.noise_beta is None else [self.beta, self.noise_beta]
        signs = (1.0, -1.0) if optimistic else (-1.0, 1.0)
        return [sign * per_point(beta, X).sqrt() for sign, beta in zip(signs, betas, strict=False)]

    def _bound_and_gradient(self, X: Tensor, optimistic: bool) -> tuple[Tensor, Tensor]:
        r"""The bound and its gradient, in closed form where both processes have one."""
        model, bounds = self._conditioned
        found = None
        if self.noise_beta is not None and X.shape[:-2] == model.batch_shape and X.shape[-2] > 0:
            found = bounds.value_and_gradient(X, self._widths(X, optimistic))
        if found is None:
            return differentiated(self.upper if optimistic else self.lower, X)
        (f, on_link_scale), (slope_of_f, slope_on_link_scale) = found
        noise = model.noise.on_outcome_scale(on_link_scale)
        aversion = per_point(self.risk_aversion, X)
        weight = aversion * model.noise.slope_on_outcome_scale(noise)
        if self.clip_noise:
            floor = model.noise.limits.floor or 0.0
            weight, noise = weight * (noise >= floor), noise.clamp_min(floor)
        gradient = torch.addcmul(slope_of_f, weight.unsqueeze(-1), slope_on_link_scale, value=-1)
        return torch.addcmul(f, aversion, noise, value=-1), gradient

    def _bound(self, X: Tensor, optimistic: bool) -> Tensor:
        X = as_points(X, self.model)
        model, bounds = self._conditioned
        widths = self._widths(X, optimistic)
        if self.noise_beta is None:
            mean, variance = bounds.predictors[0](X)  # batch_shape x m
            f = mean + widths[0] * variance.sqrt()
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            f, on_link_scale = bounds(X, widths)
            noise = model.noise.on_outcome_scale(on_link_scale)
        if self.clip_noise:
            noise = noise.clamp_min(model.noise.limits.floor or 0.0)
        return torch.addcmul(f, per_point(self.risk_aversion, X), noise, value=-1)


@construct_from_own_arguments
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

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:  # noqa: D102
        return self._bound_and_gradient(X, optimistic=True)


@construct_from_own_arguments
class RiskAverseLowerConfidenceBound(_MeanVarianceBound):
    r"""Pessimistic twin of `RiskAverseUpperConfidenceBound`, for reporting.

        score(x) = lcb_f(x) - risk_aversion * ucb_var(x)

    Source: [Makarova2021rahbo]_, Corollary 1.1. Its maximiser over a domain, or over the
    evaluated points (`botorch_risk.recommend`), is the point that is good with confidence.

    Example:
        >>> import torch
        >>> from botorch_risk.models import MeanVarianceGP
        >>> X = torch.rand(10, 1, dtype=torch.double)
        >>> model = MeanVarianceGP(X, (6 * X).sin() + X * torch.randn(10, 4, dtype=torch.double))
        >>> bound = RiskAverseLowerConfidenceBound(model, beta=4.0, risk_aversion=1.0)
        >>> handed_over = X[bound.evaluate(X).argmax()]
        >>> handed_over.shape
        torch.Size([1])
    """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Pessimistic values at `batch_shape x m x d` points, `batch_shape x m`."""
        return self.lower(X)

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:  # noqa: D102
        return self._bound_and_gradient(X, optimistic=False)


def require_mean_variance_gp(model: Model) -> None:
    r"""Raises UnsupportedError unless the model learns, or knows, its noise."""
    if not isinstance(model, MeanVarianceGP):
        raise UnsupportedError(
            f"Expected a MeanVarianceGP, which knows its noise. Got {type(model).__name__}."
        )


def select_mean_variance_gp(
    model: Model, posterior_transform: PosteriorTransform | None
) -> tuple[MeanVarianceGP, PosteriorTransform | None]:
    r"""The model whose mean and noise are weighed, and the transform of its one output.

    Args:
        model: A `MeanVarianceGP`, or a `ModelListGP` from which the transform selects one.
        posterior_transform: For a list, a `ScalarizedPosteriorTransform` with one weight that is
            not 0.

    Raises:
        UnsupportedError: If no model, or more than one, is selected, or it is no MeanVarianceGP.
    """
    if not isinstance(model, ModelList):
        require_mean_variance_gp(model)
        return model, posterior_transform  # type: ignore[return-value]
    if type(posterior_transform) is not ScalarizedPosteriorTransform:
        raise UnsupportedError(
            "Expected a `ScalarizedPosteriorTransform` that selects one output of a list of "
            f"models. Got {type(posterior_transform).__name__}."
        )
    weights: Any = posterior_transform.weights
    chosen = weights.nonzero().flatten().tolist()
    models: Any = model.models
    if len(chosen) != 1 or any(part.num_outputs != 1 for part in models):
        raise UnsupportedError(
            "Expected one weight that is not 0, over models of one output each: the noise of a sum "
            f"is not modelled. Got {weights=}, {model.num_outputs=}."
        )
    selected = models[chosen[0]]
    require_mean_variance_gp(selected)
    transform = ScalarizedPosteriorTransform(weights[chosen], posterior_transform.offset)
    return selected, transform
