r"""Posterior moments under a stationary kernel in chunks, with analytic gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.posterior.bound_on_host import MOST_CORRELATIONS
from botorch_risk.engine.posterior.cache import PosteriorCache
from botorch_risk.points import TBatch

# Entries of the m x n cross-covariance.
_CROSS_COVARIANCE = ChunkSize(cpu=2**17)


def stationary_moments(Z: Tensor, cache: PosteriorCache) -> tuple[Tensor, Tensor]:
    r"""`k (K + S)^-1 (y - m)` and `|L^-1 k|^2 / outputscale` at scaled points.

    `Z: batch_shape x m x d` is centred and scaled like the training inputs of the cache. The
    moments, `batch_shape x m` each, are once differentiable in `Z`.
    """
    mean, explained = _StationaryMoments.apply(Z, cache)
    return mean, explained


class _StationaryMoments(torch.autograd.Function):
    r"""The moments with their gradients in one pass.

    If a gradient is needed, its entries (as large as the inputs) are computed with each chunk, so
    nothing of the size of the cross-covariance is kept.
    """

    @staticmethod
    def forward(ctx: Any, Z: Tensor, cache: PosteriorCache) -> tuple[Tensor, Tensor]:
        grad = ctx.needs_input_grad[0]
        mean, explained, *gradients = _in_chunks(Z, cache, lambda Z: _moments(Z, cache, grad))
        ctx.save_for_backward(*gradients)
        ctx.shape = Z.shape
        return mean, explained

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_mean: Tensor, grad_explained: Tensor) -> tuple[Any, ...]:
        d_mean, d_explained = ctx.saved_tensors
        gradient = grad_mean.unsqueeze(-1) * d_mean + grad_explained.unsqueeze(-1) * d_explained
        return gradient.sum_to_size(ctx.shape), None


def outcome_moments(X: Tensor, cache: PosteriorCache, floor: float) -> tuple[Tensor, Tensor]:
    r"""Mean and variance in the units of the outcome, in one node of the graph.

    For a few points the calls cost more than the arithmetic, so this is faster than
    `stationary_moments` with separate maps before and after.

    Args:
        X: `... x m x d`, as the kernel takes them, where `...` broadcasts with the batch shape; the
            moments, `... x m` each, are once differentiable in them.
        cache: The cache of a model whose kernel and units are known.
        floor: The smallest variance, before conversion to the units of the outcome.
    """
    mean, variance = _OutcomeMoments.apply(X, cache, floor)
    return mean, variance


class _OutcomeMoments(torch.autograd.Function):
    r"""The moments, folded, scaled and unfolded here, since each step would be its own node."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, cache: PosteriorCache, floor: float) -> tuple[Tensor, Tensor]:
        units = cache.units
        assert units is not None  # for the type checker
        t_batch, mean, variance, gradients = _folded(X, cache, ctx.needs_input_grad[0])
        if gradients:
            ctx.save_for_backward(*gradients, variance)
            ctx.cache, ctx.floor, ctx.shape, ctx.t_batch = cache, floor, X.shape, t_batch
        mean = torch.addcmul(units.offset, mean, units.scale)
        variance = variance.clamp_min(floor).mul_(units.scale.square())
        return t_batch.unfold(mean), t_batch.unfold(variance)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Any, ...]:
        d_mean, d_explained, variance = ctx.saved_tensors
        units, t_batch = ctx.cache.units, ctx.t_batch
        # d variance = -prior d explained, and 0 of a variance that was clamped.
        slope = units.scale.square().mul(units.prior).neg() * (variance >= ctx.floor)
        grad_mean, grad_variance = (
            t_batch.fold(grad.unsqueeze(-1)) for grad in (grad_mean, grad_variance)
        )
        gradient = grad_mean * units.scale.unsqueeze(-1) * d_mean
        gradient.addcmul_(grad_variance * slope.unsqueeze(-1), d_explained)
        gradient.div_(ctx.cache.kernel.lengthscale)
        return t_batch.unfold(gradient, points_dim=-2).sum_to_size(ctx.shape), None, None


def outcome_bound(X: Tensor, cache: PosteriorCache, floor: float, width: Tensor | None) -> Tensor:
    r"""`mean + width * standard deviation` in the units of the outcome, in one node of the graph.

    `width` is broadcastable to `batch_shape x 1`, below 0 for a lower bound, and None for the mean
    alone, which takes `n` operations per point and not `n^2`; for the other arguments see
    `outcome_moments`.
    """
    bound: Tensor = _OutcomeBound.apply(X, cache, floor, width)
    return bound


def outcome_bound_and_gradient(
    X: Tensor, cache: PosteriorCache, floor: float, width: Tensor
) -> tuple[Tensor, Tensor]:
    r"""`outcome_bound` and the gradient of each value in its own point, without a graph."""
    t_batch, bound, gradient = _bound(X, cache, floor, width, grad=True)
    assert gradient is not None  # for the type checker
    return t_batch.unfold(bound), t_batch.unfold(gradient, points_dim=-2)


class _OutcomeBound(torch.autograd.Function):
    r"""A bound and its gradient, computed here since each step of the sum would be its own node."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, cache: PosteriorCache, floor: float, width: Tensor | None
    ) -> Tensor:
        t_batch, bound, gradient = _bound(X, cache, floor, width, ctx.needs_input_grad[0])
        if gradient is not None:
            ctx.save_for_backward(t_batch.unfold(gradient, points_dim=-2))
            ctx.shape = X.shape
        return t_batch.unfold(bound)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (gradient,) = ctx.saved_tensors
        return (grad.unsqueeze(-1) * gradient).sum_to_size(ctx.shape), None, None, None


def _bound(
    X: Tensor, cache: PosteriorCache, floor: float, width: Tensor | None, grad: bool
) -> tuple[TBatch, Tensor, Tensor | None]:
    r"""The bound at all points of a t-batch, and its gradient if needed."""
    t_batch, Z = _scaled(X, cache)
    kernel, units = cache.kernel, cache.units
    assert kernel is not None and units is not None  # for the type checker
    correlations = Z.shape[:-1].numel() * cache.train_inputs.shape[-2]
    if width is not None and correlations <= MOST_CORRELATIONS and cache.on_host is not None:
        known = Z.detach().numpy(), width.detach().numpy()
        value, slopes = cache.on_host(*known, floor, grad)
        gradient = None if slopes is None else torch.from_numpy(slopes)
        return t_batch, torch.from_numpy(value), gradient

    def of_chunk(Z: Tensor) -> tuple[Tensor, ...]:
        slope, correlation = _correlations(Z, cache, grad)
        bound = torch.addcmul(units.offset, _mean(correlation, cache), units.scale)
        sensitivity = cache.weights * units.scale.unsqueeze(-1)
        if width is not None:
            spread, whitened = units.scale.abs() * width, correlation @ cache.factor.mT
            explained = whitened.square().sum(dim=-1)
            variance = torch.addcmul(units.prior, explained, units.prior, value=-1)
            deviation = variance.clamp_min(floor).sqrt_()
            bound.addcmul_(spread, deviation)
            if slope is not None:
                # d deviation = -prior d explained / (2 deviation), and 0 of a clamped variance.
                share = (units.prior * spread).div(deviation).masked_fill_(variance < floor, 0.0)
                pull = whitened @ cache.factor
                sensitivity = torch.addcmul(sensitivity, share.unsqueeze(-1), pull, value=-1)
        if slope is None:
            return (bound,)
        gradient = pull_back(slope.mul_(sensitivity), Z, cache.train_inputs)
        return bound, gradient.div_(kernel.lengthscale)

    bound, *gradients = _in_chunks(Z, cache, of_chunk)
    return t_batch, bound, gradients[0] if gradients else None


def _folded(
    X: Tensor, cache: PosteriorCache, grad: bool
) -> tuple[TBatch, Tensor, Tensor, list[Tensor]]:
    r"""Latent mean and variance at all points of a t-batch, and gradients if needed."""
    t_batch, Z = _scaled(X, cache)
    units = cache.units
    assert units is not None  # for the type checker
    mean, explained, *gradients = _in_chunks(Z, cache, lambda Z: _moments(Z, cache, grad))
    variance = torch.addcmul(units.prior, explained, units.prior, value=-1)
    return t_batch, mean, variance, gradients


def _scaled(X: Tensor, cache: PosteriorCache) -> tuple[TBatch, Tensor]:
    r"""All points of a t-batch, `batch_shape x m x d`, transformed like the training inputs."""
    assert cache.kernel is not None  # for the type checker
    t_batch = TBatch.of(X, cache.factor.shape[:-2])
    return t_batch, (t_batch.fold(X) - cache.centre).div_(cache.kernel.lengthscale)


def _in_chunks(
    Z: Tensor, cache: PosteriorCache, of_chunk: Callable[[Tensor], tuple[Tensor, ...]]
) -> list[Tensor]:
    r"""Results `... x m` and `... x m x d` at points, computed in chunks."""
    size = chunk_size(Z, cache.train_inputs.shape[-2])
    if Z.shape[-2] <= size:
        return list(of_chunk(Z))
    results: list[Tensor] = []
    for start in range(0, Z.shape[-2], size):
        parts = of_chunk(Z.narrow(-2, start, min(size, Z.shape[-2] - start)))
        dims = [-1 if part.dim() < Z.dim() else -2 for part in parts]  # where the points are
        results = results or [_room(p, dim, Z) for p, dim in zip(parts, dims, strict=True)]
        for result, part, dim in zip(results, parts, dims, strict=True):
            result.narrow(dim, start, part.shape[dim]).copy_(part)
    return results


def _room(part: Tensor, dim: int, Z: Tensor) -> Tensor:
    r"""An empty tensor for the results at all points, shaped after the first chunk."""
    shape = list(part.shape)
    shape[dim] = Z.shape[-2]
    return part.new_empty(shape)


def _moments(Z: Tensor, cache: PosteriorCache, grad: bool) -> tuple[Tensor, ...]:
    slope, correlation = _correlations(Z, cache, grad)
    # The variance is the sum of squares of whitened columns: a difference of two products with
    # (K + S)^-1 would lose its digits to rounding.
    mean, whitened = _mean(correlation, cache), correlation @ cache.factor.mT
    explained = whitened.square().sum(dim=-1)
    if slope is None:
        return mean, explained
    return (
        mean,
        explained,
        pull_back(cache.weights * slope, Z, cache.train_inputs),
        pull_back((whitened @ cache.factor).mul_(slope), Z, cache.train_inputs).mul_(2),
    )


def _correlations(Z: Tensor, cache: PosteriorCache, grad: bool) -> tuple[Tensor | None, Tensor]:
    r"""The slope of the correlations with the training data, if needed, and these."""
    kernel = cache.kernel
    assert kernel is not None  # for the type checker: the caller has looked
    distance = kernel.squared_distance(Z, cache.train_inputs, cache.norms)
    if not grad:
        return None, kernel.correlation(distance)
    correlation, slope = kernel.correlation_and_slope(distance)
    return slope, correlation


def _mean(correlation: Tensor, cache: PosteriorCache) -> Tensor:
    r"""The latent mean, `... x m`."""
    return (correlation @ cache.weights.mT).squeeze(-1)


def pull_back(sensitivity: Tensor, Z: Tensor, train_Z: Tensor) -> Tensor:
    r"""`sum_j s_j (z_j - z)`: the gradient of `sum_j w_j k(z, z_j)` with `s = w * slope`."""
    return (sensitivity @ train_Z).addcmul_(sensitivity.sum(dim=-1, keepdim=True), Z, value=-1)


def chunk_size(X: Tensor, num_columns: int) -> int:
    r"""Points per chunk for the given number of columns, over all batches."""
    # In fewer points at a time the calls would cost more than the arithmetic.
    return max(64, _CROSS_COVARIANCE.rows(X.device, num_columns * X.shape[:-2].numel()))
