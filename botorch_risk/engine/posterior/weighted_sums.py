r"""Weighted sums of an outcome at groups of points, and what a reading says about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.engine.posterior.stationary_moments import pull_back
from botorch_risk.engine.posterior.sums_on_host import MOST_ENTRIES, moments_and_slope
from botorch_risk.matrices import squared_differences
from botorch_risk.steady import are_on_host

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.process import Process


def _matern_mixture(nu: float) -> tuple[list[float], list[float]]:
    r"""Weights and rates of squared exponentials that add up to a Matern correlation.

        k(r) = E exp(-nu r^2 / (2 t)),   t ~ Gamma(nu, 1)

    The integral over `log t` by the trapezoidal rule, whose error falls exponentially with the
    number of steps: 2e-8 of the prior variance at nu = 2.5, 2e-7 at 1.5.
    """
    steps = torch.arange(-10.0, 4.0, 0.4, dtype=torch.double)
    weights = 0.4 * (nu * steps - steps.exp()).exp() / math.gamma(nu)
    rates = nu / 2 * (-steps).exp()
    kept = weights > 1e-9
    return weights[kept].tolist(), rates[kept].tolist()


# By the smoothness of the kernel; of the exponential one the sums would not converge fast.
MIXTURES = {math.inf: ([1.0], [0.5]), 1.5: _matern_mixture(1.5), 2.5: _matern_mixture(2.5)}


@dataclass(frozen=True, eq=False)
class WeightedSums:
    r"""Sums `sum_j q_j f(z_j)` of an outcome over groups of points, for `B` replicates."""

    process: Process
    points: Process.Points  # the points of all P groups of p, B x (P p)
    weights: Tensor  # B x P x p
    explained: Tensor  # B x t x P, the columns of the points under their weights

    @classmethod
    def of(cls, process: Process, points: Process.Points, weights: Tensor) -> WeightedSums:
        columns = points.whitened.unflatten(-1, weights.shape[-2:])
        return cls(process, points, weights, (columns * weights.unsqueeze(1)).sum(dim=-1))

    def covariance(self, at: Process.Points) -> Tensor:
        r"""Posterior covariances of the outcome at points with the sums, `B x m x P`."""
        prior = self.process.prior.covariance(at.prior, self.points.prior)
        prior = prior.unflatten(-1, self.weights.shape[-2:])
        prior = torch.einsum("bmpw,bpw->bmp", prior, self.weights)
        return prior - at.whitened.mT @ self.explained

    def moments_at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Posterior covariances with the sums `B x m x P`, and variances `B x m`.

        Both are once differentiable in the points, `B x m x d`.
        """
        prior = self.process.prior
        grad = X.requires_grad and torch.is_grad_enabled()
        if not grad or prior.cache.kernel is None or not prior.has_shared_units:
            at = self.process.at(X)
            return self.covariance(at), at.variance
        covariance, variance = _MomentsAt.apply(prior.scaled(X), self)
        return covariance, variance

    @cached_property
    def inputs(self) -> Tensor:
        r"""The data, then the points of all groups, in the kernel's space, `B x (t + P p) x d`."""
        inputs = self.points.prior.inputs.expand(*self.points.prior.scale.shape, -1)
        return torch.cat([self.process.inputs, inputs], dim=-2)

    @cached_property
    def scaled_weights(self) -> Tensor:
        r"""The weight of each correlation with a point of a group, `B x P x p`."""
        return self.weights * self.points.prior.scale.unflatten(-1, self.weights.shape[-2:])

    def variance(self) -> Tensor:
        r"""The posterior variance of each sum, `B x P`."""
        covariance = self.process.covariance_within(self.points, self.weights.shape[-1])
        along = (self.weights.unsqueeze(-2) @ covariance).squeeze(-2)
        return (along * self.weights).sum(dim=-1).clamp_min(0.0)

    def covariances(self, num_last: int) -> Tensor | None:
        r"""The posterior covariances of the sums with each other, `B x P x P`.

        For groups `(x_p, w_j)` of one x under the same `w_j`, squared distances are sums of one of
        x and one of w, and the kernel is a mixture of squared exponentials, which are products:

            sum_jl q_pj q_ol k(x_p, w_j; x_o, w_l) = sum_m c_m k_m(x_p, x_o) (q_p' K_m q_o)

        None for other groups, or if the kernel has no direct formulas. `num_last` is the number of
        last inputs that belong to w.
        """
        prior, kernel = self.points.prior, self.process.prior.cache.kernel
        if kernel is None or kernel.nu not in MIXTURES:
            return None
        inputs = prior.inputs.expand(*prior.scale.shape, -1).unflatten(-2, self.weights.shape[-2:])
        W, X = inputs[:, 0, :, -num_last:], inputs[:, :, 0, :-num_last]
        rounding = 64 * torch.finfo(X.dtype).eps * inputs.abs().amax()
        spread_of_x = (inputs[..., :-num_last] - X.unsqueeze(-2)).abs().amax()
        spread_of_w = (inputs[..., -num_last:] - W.unsqueeze(-3)).abs().amax()
        if not torch.maximum(spread_of_x, spread_of_w) <= rounding:  # a transform mixes x and w
            return None
        of_x, of_w = (squared_differences(each, each) for each in (X, W))
        scaled = self.weights * prior.scale.unflatten(-1, self.weights.shape[-2:])
        total = -self.explained.mT @ self.explained
        for weight, rate in zip(*MIXTURES[kernel.nu], strict=True):
            along = scaled @ of_w.mul(-rate).exp_() @ scaled.mT
            total.addcmul_(of_x.mul(-rate).exp_(), along, value=weight)
        return (total + total.mT) / 2  # symmetric up to rounding before


class _MomentsAt(torch.autograd.Function):
    r"""`WeightedSums.moments_at` in one node, if every point has one scale and prior variance.

    With `k` the correlations of a point z with the data and the groups, `F` the factor of the data
    and `q` the scaled weights:

        covariance_p = scale (q_p' k_p) - (scale F k)' explained_p
        variance = prior - |scale F k|^2

    The gradient of any function of them is one pull-back along all correlations.
    """

    @staticmethod
    def forward(ctx: Any, Z: Tensor, sums: WeightedSums) -> tuple[Tensor, Tensor]:
        kernel: Any = sums.process.prior.cache.kernel
        scale = sums.points.prior.scale[:, :1].unsqueeze(-1)  # all points share it, B x 1 x 1
        ctx.sums = sums
        # NumPy's distances come from a matrix product, too coarse for the exponential kernel.
        few = Z.shape[:-1].numel() * sums.inputs.shape[-2] <= MOST_ENTRIES and kernel.nu != 0.5
        if few and are_on_host(Z):
            found = moments_and_slope(Z.detach().numpy(), scale.numpy(), sums)
            covariance, variance, slope, whitened = map(torch.from_numpy, found)
            ctx.save_for_backward(Z, scale, slope, whitened, variance)
            return covariance, variance
        profile, slope = kernel.correlation_and_slope(kernel.squared_distance(Z, sums.inputs))
        of_data, of_groups = profile.tensor_split([sums.process.inputs.shape[-2]], dim=-1)
        whitened = (of_data @ sums.process.factor.mT).mul_(scale)  # B x m x t
        groups = of_groups.unflatten(-1, sums.weights.shape[-2:])
        covariance = torch.einsum("bmpw,bpw->bmp", groups, sums.scaled_weights).mul_(scale)
        covariance = covariance.sub_(whitened @ sums.explained)
        variance = (scale.square().squeeze(-1) - whitened.square().sum(dim=-1)).clamp_min_(0.0)
        ctx.save_for_backward(Z, scale, slope, whitened, variance)
        return covariance, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_covariance: Tensor, of_variance: Tensor) -> tuple[Any, ...]:
        Z, scale, slope, whitened, variance = ctx.saved_tensors
        sums: WeightedSums = ctx.sums
        of_variance = of_variance.masked_fill(variance <= 0, 0.0).unsqueeze(-1)  # was clamped
        of_covariance = of_covariance * scale
        data = torch.addcmul(
            of_covariance @ sums.explained.mT, of_variance * scale, whitened, value=2
        )
        groups = of_covariance.unsqueeze(-1) * sums.scaled_weights.unsqueeze(-3)
        pull = torch.cat([-data @ sums.process.factor, groups.flatten(-2)], dim=-1).mul_(slope)
        return pull_back(pull, Z, sums.inputs), None
