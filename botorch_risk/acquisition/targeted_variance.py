r"""Targeted integrated variance of the kriging literature."""

from __future__ import annotations

import math

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.level_set import register_threshold
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    as_nonnegative,
    construct_from_own_arguments,
    map_replicates,
)
from botorch_risk.acquisition.truncated_variance.sampling import Noise, SamplingTerms
from botorch_risk.arguments import as_tensor
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.inputs import as_points


@construct_from_own_arguments
class TargetedIntegratedVariance(PointwiseAcquisitionFunction):
    r"""Reduction of the integrated variance near a level (tIMSE) [Picheny2010timse]_.

        score(x) = sum_j w_j W(u_j) cov(x, u_j)^2 / (sigma^2(x) + noise(x))
        W(u) = N(mean(u); h, sigma^2(u) + bandwidth^2)

    The paper minimises `sum_j w_j W(u_j) sigma^2(u_j | x)`; this is by how much `x` lowers it,
    which has the same maximiser. W is the density of f(u) at the level, blurred by the
    bandwidth, at the present posterior. Exact GPs with one output; q = 1: use `sequential=True`.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(8, 1, dtype=torch.double)
        >>> points = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> acqf = TargetedIntegratedVariance(model, threshold=0.5, points=points)
        >>> acqf(torch.rand(3, 1, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    threshold: Tensor

    def __init__(
        self,
        model: Model,
        threshold: float | Tensor,
        points: Tensor,
        weights: Tensor | None = None,
        bandwidth: float = 0.0,
        noise: Noise | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            model: A fitted exact GP with one output.
            threshold: The level h in units of the (transformed) outcome, one or `batch_shape`.
            points: `n x d` integration points.
            weights: `n` weights of the points >= 0; `1 / n` each by default.
            bandwidth: How far from the level a value still counts (the paper's
                `sigma_epsilon`), in units of the outcome.
            noise: The noise variance of a sample, a number or a function of points; the
                inferred one by default.
            posterior_transform: A scalarization of the one output.
            X_pending: `batch_shape x n' x d` points under evaluation.

        Raises:
            BotorchTensorDimensionError: If points and weights do not fit.
            UnsupportedError: If the model has no closed form.
            ValueError: If a number is out of its range, or the noise is missing.
        """
        super().__init__(model=model)
        register_threshold(self, threshold)
        points, weights = as_points(points, model), as_tensor("weights", weights)
        self.posterior = DomainPosterior(
            model, points, dense=False, posterior_transform=posterior_transform
        )
        weights = torch.full_like(points[:, 0], 1 / len(points)) if weights is None else weights
        if weights.shape != points.shape[:1]:
            raise BotorchTensorDimensionError(
                f"Expected one weight for each of {len(points)} points. Got {weights.shape=}."
            )
        self.weights = as_nonnegative("weights", weights).to(points)
        self.bandwidth = float(as_nonnegative("bandwidth", bandwidth))
        self.terms = SamplingTerms(noise=noise)
        self.terms.noise_at(points, self.posterior)  # checked now
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> DomainPosterior:
        r"""The posterior with the variances that pending points leave; the means stay."""
        if X_pending is None:
            return self.posterior
        return self.terms.hallucinate(self.posterior, X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Reductions at `batch_shape x m x d` points, `batch_shape x m`."""
        X = as_points(X, self.model)
        return map_replicates(self._reduction, X, self.posterior.batch_shape)

    def _reduction(self, X: Tensor) -> Tensor:
        r"""Reductions `B x m` at `B x m x d` points."""
        posterior = self._conditioned
        at = posterior.at(X)
        index = torch.arange(len(self.weights), device=X.device).expand(len(X), -1)
        points = posterior.points(index)
        spread = points.variance + self.bandwidth**2
        floor = torch.finfo(spread.dtype).tiny
        level = self.threshold.to(X).reshape(-1, 1)
        z = (points.mean - level).square() / (2 * spread).clamp_min(floor)
        density = (-z).exp() / (2 * math.pi * spread).clamp_min(floor).sqrt()  # W
        density = density.where(points.variance > posterior.resolution.reshape(-1, 1), 0.0)
        noise = self.terms.noise_at(X, posterior).squeeze(-1)
        total = (at.variance + noise).clamp_min(floor)
        reduction = posterior.cross_covariance(at, points).square() / total.unsqueeze(-1)
        return (reduction * (self.weights * density).unsqueeze(-2)).sum(dim=-1)
