r"""An exact GP before and after its data, in the units of the outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.engine.posterior.cache import PosteriorCache
from botorch_risk.engine.posterior.kernels import StationaryKernel
from botorch_risk.engine.posterior.weighted_sums import WeightedSums

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.belief import Belief


class PriorPoints(NamedTuple):
    r"""Points with their prior moments, for `B` replicates."""

    inputs: Tensor  # B x m x d in the space of the kernel, or m x d if all replicates share it
    scale: Tensor  # B x m; the covariance of two points is their correlation times both scales
    mean: Tensor  # B x m prior means in the units of the outcome
    variance: Tensor  # B x m prior variances, squared units of the outcome

    def take(self, index: Tensor) -> PriorPoints:
        r"""The points of a `B x a` index."""
        inputs = self.inputs.expand(*self.scale.shape, -1)
        rows = index.unsqueeze(-1).expand(*index.shape, inputs.shape[-1])
        return PriorPoints(inputs.gather(-2, rows), *(part.gather(-1, index) for part in self[1:]))


@dataclass(frozen=True)
class PriorProcess:
    r"""Mean, covariance and noise of an exact GP with one output, transforms included.

    The linear outcome transforms and the posterior transform become an offset and a factor at each
    point. Covariances are differentiable in the first argument only.
    """

    model: Any  # the GP, of any batch shape; B is the number of its entries, 1 for []
    belief: Belief  # transforms moments to the units of the outcome
    cache: PosteriorCache

    @property
    def num_replicates(self) -> int:
        return self.model.batch_shape.numel()

    def points(self, X: Tensor) -> PriorPoints:
        r"""Prepare points `m x d` or `B x m x d` in the units of the model's inputs."""
        inputs = self.model.transform_inputs(self._of_model(X))
        offset, factor = (self._rows(part, X) for part in self._units(inputs))
        mean = self._rows(self.model.mean_module(inputs), X)
        kernel = self.cache.kernel
        if kernel is None:
            latent = self._rows(self.model.covar_module(inputs, diag=True), X)
            inputs = self._batched(inputs) if inputs.dim() > 2 else inputs
            scale = factor
        else:
            inputs = self._scaled(inputs, kernel)
            latent = torch.ones_like(mean)
            scale = factor * self._batched(kernel.outputscale).sqrt().flatten(-2)
        return PriorPoints(inputs, scale, offset + factor * mean, scale.square() * latent)

    def scaled(self, X: Tensor) -> Tensor:
        r"""Points in the space of a stationary kernel, `B x m x d`, without their moments."""
        kernel: Any = self.cache.kernel
        inputs = self._scaled(self.model.transform_inputs(self._of_model(X)), kernel)
        return inputs.expand(self.num_replicates, *inputs.shape[-2:])

    def _scaled(self, inputs: Tensor, kernel: StationaryKernel) -> Tensor:
        return self._batched(inputs - self.cache.centre) / self._batched(kernel.lengthscale)

    def correlation(self, first: Tensor, second: Tensor) -> Tensor:
        r"""`B x m x n` covariances of the latent process, in units of the points' scales."""
        kernel = self.cache.kernel
        if kernel is None:
            covariance = self.model.covar_module(*map(self._of_model, (first, second)))
            return self._batched(covariance.to_dense())
        if first.requires_grad and torch.is_grad_enabled():
            result: Tensor = _Correlation.apply(first, second, kernel)
            return result
        return kernel.correlation(kernel.squared_distance(first, second))

    def covariance(self, first: PriorPoints, second: PriorPoints) -> Tensor:
        r"""`B x m x n` prior covariances, squared units of the outcome."""
        correlation = self.correlation(first.inputs, second.inputs)
        if correlation.requires_grad:
            return correlation * first.scale.unsqueeze(-1) * second.scale.unsqueeze(-2)
        return correlation.mul_(first.scale.unsqueeze(-1)).mul_(second.scale.unsqueeze(-2))

    def training(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Inputs, factor and whitened residuals of the training data, as `Process` has them."""
        cache = self.cache
        # The cached factor has the root of the outputscale in it, for correlations.
        outputscale = 1.0 if cache.kernel is None else cache.kernel.outputscale
        residual = self.model.train_targets - self.model.mean_module(self.model.train_inputs[0])
        whitened = cache.factor / outputscale**0.5 @ residual.unsqueeze(-1)
        inputs = cache.train_inputs
        return self._batched(inputs), self._batched(cache.factor), self._batched(whitened)[..., 0]

    def outcomes(self) -> Tensor:
        r"""The outcomes that the model was trained on, `B x n`."""
        inputs = self.model.train_inputs[0]
        offset, factor = self._units(inputs)
        return self._rows(offset + factor * self.model.train_targets, inputs)

    def inferred_noise(self, X: Tensor) -> Tensor | None:
        r"""The inferred noise variance at points, `B x m`; `None` if the noise is fixed."""
        likelihood = self.model.likelihood
        if type(likelihood) is not GaussianLikelihood:
            return None
        return likelihood.noise.detach().reshape(-1, 1) * self.outcome_factor(X).square()

    def outcome_factor(self, X: Tensor) -> Tensor:
        r"""The size of the model's unit in the user's units at points, `B x m`."""
        shared = self._shared_units()
        _, factor = shared or self._units(self.model.transform_inputs(self._of_model(X)))
        return self._rows(factor, X)

    @property
    def has_shared_units(self) -> bool:
        r"""Whether all points share the scale and, under a stationary kernel, the variance."""
        return self._shared_units() is not None

    def _shared_units(self) -> tuple[Tensor, Tensor] | None:
        r"""The offset and factor of all points, if they are known to be the same."""
        units, constant = self.cache.units, self.cache.constant
        if units is None or constant is None or self.belief.posterior_transform is not None:
            return None
        return units.offset - units.scale * constant, units.scale

    def _units(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Offset and factor from the model's outcomes to the user's, at transformed inputs."""
        if (shared := self._shared_units()) is not None:
            return shared
        zero = inputs.new_zeros(*self.model.batch_shape, inputs.shape[-2])
        with torch.no_grad():  # an affine map is known from where it takes 0 and 1
            offset, _ = self.belief.to_outcome(zero, zero, inputs.detach())
            one, _ = self.belief.to_outcome(zero + 1, zero, inputs.detach())
        return offset, one - offset

    def _rows(self, values: Tensor, X: Tensor) -> Tensor:
        r"""Values at points in the model's batch shape as `B x m`."""
        m = X.shape[-2]
        return values.expand(*self.model.batch_shape, m).reshape(self.num_replicates, m)

    def _batched(self, value: Tensor) -> Tensor:
        r"""Matrices in the model's batch shape as `B x ...`."""
        return value.unsqueeze(0) if value.dim() == 2 else value.flatten(0, -3)

    def _of_model(self, X: Tensor) -> Tensor:
        r"""Points `B x m x d` in the model's batch shape; `m x d` stay as they are."""
        return X if X.dim() == 2 else X.reshape(*self.model.batch_shape, *X.shape[-2:])


@dataclass(frozen=True)
class Process:
    r"""The inverse Cholesky factor of all observations, extended row by row.

    With `L` the Cholesky factor of `K + S`, `V = L^-1 k(X, .)` and `z = L^-1 (y - m(X))`:

        mean = m + V' z,   covariance = k - V' V                        Eqs. (1), (2), (20)

    Attributes:
        prior: The GP before its data.
        inputs: `B x t x d` inputs in the space of the kernel.
        factor: `B x t x t`, which whitens the correlations with them.
        residuals: `B x t`, the `z` above.
    """

    prior: PriorProcess
    inputs: Tensor
    factor: Tensor
    residuals: Tensor

    class Points(NamedTuple):
        r"""Points with their posterior moments, for `B` replicates.

        Attributes:
            prior: The points with their prior moments.
            whitened: `B x t x m` columns `L^-1 k(X, points)`; products of two columns are the
                covariance explained by the `t` observations.
            mean: `B x m` posterior means.
            variance: `B x m` posterior variances, at least 0.
        """

        prior: PriorPoints
        whitened: Tensor
        mean: Tensor
        variance: Tensor

        def take(self, index: Tensor) -> Process.Points:
            spread = index.unsqueeze(-2).expand(-1, self.whitened.shape[-2], -1)
            return Process.Points(
                self.prior.take(index),
                self.whitened.gather(-1, spread),
                self.mean.gather(-1, index),
                self.variance.gather(-1, index),
            )

        def part(self, replicates: slice, points: slice) -> Process.Points:
            inputs = self.prior.inputs.expand(*self.mean.shape, -1)
            prior = PriorPoints(inputs, *self.prior[1:])
            return Process.Points(
                PriorPoints(*(field[replicates, points] for field in prior)),
                self.whitened[replicates, :, points],
                self.mean[replicates, points],
                self.variance[replicates, points],
            )

    @classmethod
    def of(cls, prior: PriorProcess) -> Process:
        return cls(prior, *(part.detach() for part in prior.training()))

    @property
    def num_replicates(self) -> int:
        return self.prior.num_replicates

    def at(self, X: Tensor) -> Process.Points:
        r"""The posterior at `m x d` or `B x m x d` points, differentiable in them."""
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            prior = self.prior.points(X)
            correlation = self.prior.correlation(prior.inputs, self.inputs)  # B x m x t
            whitened = self.factor @ correlation.mT * prior.scale.unsqueeze(-2)
            mean = prior.mean + (whitened * self.residuals.unsqueeze(-1)).sum(dim=-2)
            variance = prior.variance - whitened.square().sum(dim=-2)
            return Process.Points(prior, whitened, mean, variance.clamp_min(0.0))

    def covariance(self, first: Process.Points, second: Process.Points) -> Tensor:
        r"""`B x m x n` posterior covariances, differentiable in the first points."""
        prior = self.prior.covariance(first.prior, second.prior)
        if prior.requires_grad:
            return prior - first.whitened.mT @ second.whitened
        return prior.baddbmm_(first.whitened.mT, second.whitened, alpha=-1.0)  # Eq. (20)

    def covariance_within(self, points: Process.Points, size: int) -> Tensor:
        r"""Posterior covariances within groups of `p` consecutive points, `B x m x p x p`.

        They are differentiable in the points.
        """
        inputs, scale = points.prior.inputs, points.prior.scale
        inputs = inputs.expand(*scale.shape, inputs.shape[-1])
        inputs = inputs.unflatten(-2, (-1, size))
        if self.prior.cache.kernel is None:  # whose hyperparameters belong to replicates
            parts = [self.prior.correlation(each, each) for each in inputs.unbind(-3)]
            correlation = torch.stack(parts, dim=-3)
        else:
            folded = inputs.flatten(0, 1)
            correlation = self.prior.correlation(folded, folded).unflatten(0, inputs.shape[:2])
            if correlation.requires_grad:  # in the first points alone, the second are the same
                correlation = correlation + correlation.mT - correlation.detach()
        scale = scale.unflatten(-1, (-1, size))
        explained = points.whitened.unflatten(-1, (-1, size)).movedim(-2, -3)  # B x m x t x p
        return correlation * scale.unsqueeze(-1) * scale.unsqueeze(-2) - explained.mT @ explained

    def weighted_sums(self, points: Process.Points, weights: Tensor) -> WeightedSums:
        r"""The sums of the outcome over groups of points under weights `B x P x p`."""
        return WeightedSums.of(self, points, weights)

    def noise_of_a_reading(self, X: Tensor) -> Tensor | None:
        r"""The noise variance of a reading at points `B x m x d`, `B x m`; None if unknown."""
        likelihood = self.prior.model.likelihood
        if type(likelihood) is GaussianLikelihood:
            return self.prior.inferred_noise(X)
        if type(likelihood) is FixedNoiseGaussianLikelihood:  # BoTorch's rule too: the average
            noise = likelihood.noise.mean(dim=-1).reshape(-1, 1)
            return noise * self.prior.outcome_factor(X).square()
        return None

    def extended(self, points: Process.Points, outcome: Tensor, whitening: Tensor) -> Process:
        r"""Condition on further observations.

        Args:
            points: The `b` points under this process.
            outcome: `B x b` outcomes.
            whitening: `B x b x b`, the inverse Cholesky factor of the outcomes' covariance; rows
                and columns of zeros where an outcome is missing.
        """
        # The next rows of a Cholesky factor are the points minus what the rows before them explain,
        # whitened. Zeros append rows of zeros, which explain nothing: all replicates keep one shape
        # where some have no outcome.
        explained = whitening @ points.whitened.mT @ self.factor
        own = whitening * points.prior.scale.unsqueeze(-2)
        wider = torch.nn.functional.pad(self.factor, (0, own.shape[-1]))
        counted = whitening.diagonal(dim1=-2, dim2=-1) > 0
        surprise = (outcome - points.mean).where(counted, 0.0).unsqueeze(-1)
        inputs = points.prior.inputs.expand(*points.prior.scale.shape, -1)
        return replace(
            self,
            inputs=torch.cat([self.inputs, inputs], dim=-2),
            factor=torch.cat([wider, torch.cat([-explained, own], dim=-1)], dim=-2),
            residuals=torch.cat([self.residuals, (whitening @ surprise).squeeze(-1)], dim=-1),
        )


class _Correlation(torch.autograd.Function):
    r"""A stationary correlation with its gradient in the first points, 0 where points meet."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, kernel: StationaryKernel) -> Tensor:
        correlation, slope = kernel.correlation_and_slope(kernel.squared_distance(first, second))
        ctx.save_for_backward(first, second, slope)
        return correlation.clone()  # one tensor with its slope for the squared exponential

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        first, second, slope = ctx.saved_tensors
        # sum_j grad_j dk/dz = sum_j grad_j slope_j (z_j - z), without an m x n x d tensor.
        pull = grad * slope
        gradient = pull @ second - pull.sum(dim=-1, keepdim=True) * first
        return gradient.sum_to_size(first.shape), None, None
