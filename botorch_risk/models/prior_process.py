r"""An exact GP before its data, in the units of the outcome: what a posterior is built on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.models.marginals import MarginalPredictor
from botorch_risk.models.posterior_cache import PosteriorCache
from botorch_risk.models.stationary import StationaryKernel


class Points(NamedTuple):
    r"""Points with what the prior says of each, for `B` replicates.

    Attributes:
        inputs: `B x m x d` in the space of the kernel, or `m x d` if all replicates share it.
        scale: `B x m`; the covariance of two points is their correlation times both scales.
        mean: `B x m` prior means in the units of the outcome.
        variance: `B x m` prior variances, squared units of the outcome.
    """

    inputs: Tensor
    scale: Tensor
    mean: Tensor
    variance: Tensor

    def take(self, index: Tensor) -> Points:
        r"""The points of a `B x a` index."""
        inputs = self.inputs.expand(*self.scale.shape, -1)
        rows = index.unsqueeze(-1).expand(*index.shape, inputs.shape[-1])
        return Points(inputs.gather(-2, rows), *(part.gather(-1, index) for part in self[1:]))


@dataclass(frozen=True)
class PriorProcess:
    r"""Mean, covariance and noise of an exact GP with one output, transforms included.

    The linear transforms of the outcome and the posterior transform are an offset and a factor
    at each point. Covariances are differentiable in the first argument only.

    Attributes:
        model: The GP, of batch shape `[]` or `[R]`; there are `B` = 1 or `R` replicates.
        predictor: Knows the way back to the units of the outcome.
        cache: The factors of the training data.
    """

    model: Any
    predictor: MarginalPredictor
    cache: PosteriorCache

    @property
    def num_replicates(self) -> int:
        r"""The number `B` of replicates."""
        return self.model.batch_shape.numel()

    def points(self, X: Tensor) -> Points:
        r"""Prepares points `m x d` or `B x m x d` in the units of the model's inputs."""
        shape = (self.num_replicates, X.shape[-2])
        offset, factor = (part.expand(shape) for part in self._units(X))
        inputs = self.model.transform_inputs(X)
        mean = self.model.mean_module(inputs).expand(shape)
        kernel = self.cache.kernel
        if kernel is None:
            latent = self.model.covar_module(inputs, diag=True).expand(shape)
            scale = factor
        else:
            inputs = self._batched(inputs - self.cache.centre) / self._batched(kernel.lengthscale)
            latent = torch.ones_like(mean)
            scale = factor * self._batched(kernel.outputscale).sqrt().flatten(-2)
        return Points(inputs, scale, offset + factor * mean, scale.square() * latent)

    def correlation(self, first: Tensor, second: Tensor) -> Tensor:
        r"""`B x m x n` covariances of the latent process, in units of the points' scales."""
        kernel = self.cache.kernel
        if kernel is None:
            model_inputs = [self._as_model_batch(inputs) for inputs in (first, second)]
            covariance = self.model.covar_module(*model_inputs).to_dense()
            return covariance if covariance.dim() == 3 else covariance.unsqueeze(0)
        if first.requires_grad and torch.is_grad_enabled():
            result: Tensor = _Correlation.apply(first, second, kernel)
            return result
        return kernel.correlation(kernel.squared_distance(first, second))

    def covariance(self, first: Points, second: Points) -> Tensor:
        r"""`B x m x n` prior covariances, squared units of the outcome."""
        correlation = self.correlation(first.inputs, second.inputs)
        if correlation.requires_grad:
            return correlation * first.scale.unsqueeze(-1) * second.scale.unsqueeze(-2)
        return correlation.mul_(first.scale.unsqueeze(-1)).mul_(second.scale.unsqueeze(-2))

    def training(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""The factor of the training data.

        Returns:
            Inputs `B x n x d`; the inverse Cholesky factor `B x n x n` that whitens the
            correlations with them; and the whitened residuals `B x n`.
        """
        cache = self.cache
        outputscale = 1.0 if cache.kernel is None else cache.kernel.outputscale
        residual = self.model.train_targets - self.model.mean_module(self.model.train_inputs[0])
        whitened = cache.factor / outputscale**0.5 @ residual.unsqueeze(-1)
        inputs = cache.train_inputs
        return self._batched(inputs), self._batched(cache.factor), self._batched(whitened)[..., 0]

    def outcomes(self) -> Tensor:
        r"""The outcomes that the model was trained on, `B x n`."""
        offset, factor = self._units(self.model.train_inputs[0])
        targets = self.model.train_targets
        return (offset + factor * targets).expand(self.num_replicates, targets.shape[-1])

    def inferred_noise(self, X: Tensor) -> Tensor | None:
        r"""The inferred noise variance at points, `B x m`; `None` if the noise is fixed."""
        likelihood = self.model.likelihood
        if type(likelihood) is not GaussianLikelihood:
            return None
        _, factor = self._units(X)
        return (factor.square() * likelihood.noise.detach()).expand(
            self.num_replicates, X.shape[-2]
        )

    def _units(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Offset and factor from the model's outcomes to the user's, at each point."""
        zero = X.new_zeros(*self.model.batch_shape, X.shape[-2])
        with torch.no_grad():
            offset, _ = self.predictor.to_outcome(zero, zero, X.detach())
            one, _ = self.predictor.to_outcome(zero + 1, zero, X.detach())
        return offset, one - offset

    def _batched(self, value: Tensor) -> Tensor:
        return value if value.dim() == 3 else value.unsqueeze(0)

    def _as_model_batch(self, inputs: Tensor) -> Tensor:
        alone = not self.model.batch_shape and inputs.dim() == 3
        return inputs.squeeze(0) if alone else inputs


class _Correlation(torch.autograd.Function):
    r"""A stationary correlation with its gradient in the first points, 0 where points meet."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, kernel: StationaryKernel) -> Tensor:
        correlation, slope = kernel.correlation_and_slope(kernel.squared_distance(first, second))
        ctx.save_for_backward(first, second, slope)
        return correlation.clone()  # the squared exponential is its own slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        first, second, slope = ctx.saved_tensors
        pull = grad * slope
        gradient = pull @ second - pull.sum(dim=-1, keepdim=True) * first
        return gradient.sum_to_size(first.shape), None, None
