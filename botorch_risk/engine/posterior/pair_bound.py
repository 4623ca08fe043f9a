r"""A number computed from the bounds of a decision at all values of w, and its gradient."""

from __future__ import annotations

from collections.abc import Callable

import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.posterior.pair_bound_on_host import ReductionOnHost
from botorch_risk.engine.posterior.product_factors import ProductFactors
from botorch_risk.engine.posterior.stationary_moments import pull_back

# Bounds of each decision, `batch_shape x m x n_w`, to one number, `batch_shape x m`, and its
# derivative in them, of their shape; or the index of the bound that it equals, `batch_shape x m`;
# or None if no gradient is needed.
Reduction = Callable[[Tensor], tuple[Tensor, Tensor | None]]


@torch.no_grad()
def reduced_bounds(
    X: Tensor, width: Tensor, reduce: Reduction, factors: ProductFactors
) -> tuple[Tensor, Tensor | None]:
    r"""A number from each decision's bounds, `batch_shape x m`, and its gradient, without a graph.

    `X` are decisions `batch_shape x m x d_x`, as `factors.scaled` takes them; `width` is a number
    of standard deviations, broadcastable to `batch_shape x m x 1`.
    """
    Z, floor = factors.scaled(X), factors.least_variance(X.dtype)
    host = factors.on_host
    if host is not None and host.serves(Z.shape[:-1].numel()):
        known = Z.numpy(), width.detach().numpy(), floor.numpy()
        found, of_found = host(*known, lambda bounds: _on_host(reduce, bounds))
        gradient = None if of_found is None else torch.from_numpy(of_found)
        return torch.from_numpy(found), gradient
    k_x = factors.correlation(Z)
    G = factors.whitened(k_x)
    variance = factors.variance(G)
    deviation = variance.clamp_min(floor).sqrt_()
    value, slope = reduce(torch.addcmul(factors.mean(k_x), width, deviation))
    if slope is None:
        return value, None
    # d deviation = -prior d explained / (2 deviation), and 0 of a clamped variance.
    share = (-0.5 * factors.outcome.prior * width).div(deviation)
    share.masked_fill_(variance <= floor, 0.0)
    if slope.is_floating_point():
        sensitivity = _of_all(G, share.mul_(slope), slope, factors)
    else:
        sensitivity = _of_one(k_x, share, slope.unsqueeze(-1), factors)
    pulled = pull_back(sensitivity.mul_(k_x), Z, factors.train_X)
    return value, pulled.div_(factors.lengthscale)


def numpy_form(
    num_decisions: int, reduce: ReductionOnHost, width: Tensor, factors: ProductFactors
) -> Callable[[ndarray], tuple[ndarray, ndarray]] | None:
    r"""`reduced_bounds` as a function of arrays of `num_decisions` or fewer; None if slower."""
    host = factors.on_host
    if host is None or not host.serves(factors.train_X.shape[:-2].numel() * num_decisions):
        return None
    unit, known = 1.0 / factors.lengthscale.numpy(), width.detach().numpy()
    shift, floor = factors.centre.numpy() * unit, factors.least_variance(torch.float64).numpy()

    def value_and_gradient(X: ndarray) -> tuple[ndarray, ndarray]:
        Z = X * unit - shift
        value, gradient = host(Z, known, floor, reduce)
        assert gradient is not None  # for the type checker
        return value, gradient

    return value_and_gradient


def _on_host(reduce: Reduction, bounds: ndarray) -> tuple[ndarray, ndarray | None]:
    value, slope = reduce(torch.from_numpy(bounds))
    return value.numpy(), None if slope is None else slope.numpy()


def _of_all(G: Tensor, share: Tensor, slope: Tensor, factors: ProductFactors) -> Tensor:
    r"""The derivative in the correlations of x, `batch_shape x m x n`."""
    pull = factors.unwhitened(G @ factors.sum_of_squares(share))
    pull = (pull * factors.basis.mT.unsqueeze(-3)).sum(dim=-1)
    return pull.add_(factors.mean_pulled_back(slope))


def _of_one(k_x: Tensor, share: Tensor, index: Tensor, factors: ProductFactors) -> Tensor:
    r"""Likewise, of the bound at one value of w for each decision."""
    cache, outcome = factors.cache, factors.outcome
    k_w = _rows(factors.coordinates, index) @ factors.basis  # batch_shape x m x n
    pull = ((k_x * k_w) @ cache.factor.mT) @ cache.factor
    share = 2.0 * share.gather(-1, index)
    return torch.addcmul(cache.weights * outcome.scale, share, pull).mul_(k_w)


def _rows(matrix: Tensor, index: Tensor) -> Tensor:
    r"""Rows of `... x n_w x r`, where `...` broadcasts, at indices `batch_shape x m x 1`."""
    shape = *index.shape[:-1], matrix.shape[-1]
    matrix = matrix.expand(*index.shape[:-2], *matrix.shape[-2:])
    return matrix.gather(-2, index.expand(shape))
