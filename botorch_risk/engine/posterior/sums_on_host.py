r"""What a few readings say about weighted sums of an outcome, in NumPy.

`product` and `weighted_sums` have the same formulas for tensors. At four decisions the arithmetic
takes a third of the time of the PyTorch calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from botorch_risk.engine.posterior.kernels_on_host import profile_and_slope
from botorch_risk.engine.posterior.one_thread import MOST_MULTIPLICATIONS, product

# Up to so many entries of the largest arrays.
MOST_ENTRIES = 2**15


def are_few(X: Any, factors: Any) -> bool:
    r"""Whether decisions `batch_shape x m x d_x` are for `moments_over_w`.

    Each product is below the size that starts threads.
    """
    num_rows, n = factors.basis.shape[-2:]
    return (
        factors.is_scaled
        and X.shape[:-1].numel() * n * num_rows <= MOST_ENTRIES
        and n * n * num_rows <= MOST_MULTIPLICATIONS
    )


def moments_over_w(
    Z: ndarray, factors: Any, columns: ndarray, sums_Z: ndarray, of_w: ndarray
) -> tuple[ndarray, ndarray]:
    r"""The parts of `ProductMarginals.moments_with`.

    Args:
        Z: Decisions `batch_shape x m x d_x`, scaled like the training data.
        factors: The factors of a product kernel.
        columns: Whitened correlations of the data with the sums, `batch_shape x n x P`.
        sums_Z: The decisions of the sums, `batch_shape x P x d_x`.
        of_w: Covariances of the sums with each w at their own decision, `batch_shape x P x n_w`.

    Returns:
        Covariances `batch_shape x m x n_w x P` over the scale, and explained parts of variances
        `batch_shape x m x n_w`.
    """
    basis, coordinates = factors.basis.numpy(), factors.coordinates.numpy()[..., None, :, :]
    k_x = np.exp(-0.5 * squared_distance(Z, factors.train_X.numpy()))
    spread = k_x[..., None] * basis.swapaxes(-1, -2)[..., None, :, :]
    G = factors.cache.factor.numpy()[..., None, :, :] @ spread  # batch_shape x m x n x r
    rows = G.swapaxes(-1, -2)
    explained = ((coordinates @ (rows @ G)) * coordinates).sum(axis=-1)
    of_x = np.exp(-0.5 * squared_distance(Z, sums_Z))[..., None, :]  # batch_shape x m x 1 x P
    covariance = of_x * of_w.swapaxes(-1, -2)[..., None, :, :]
    covariance -= coordinates @ (rows @ columns[..., None, :, :])
    return covariance, explained


def moments_and_slope(
    Z: ndarray, scale: ndarray, sums: Any
) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    r"""Covariances, variances, slopes of the correlations and whitened ones: `_MomentsAt`."""
    inputs, nu = sums.inputs.numpy(), sums.process.prior.cache.kernel.nu
    profile, slope = profile_and_slope(squared_distance(Z, inputs), nu)
    of_data, of_groups = np.split(profile, [sums.process.inputs.shape[-2]], axis=-1)
    whitened = product(of_data, sums.process.factor.numpy().swapaxes(-1, -2)) * scale
    weights = sums.scaled_weights.numpy()  # B x P x p
    groups = of_groups.reshape(*of_groups.shape[:-1], *weights.shape[1:])
    covariance = (groups * weights[:, None]).sum(axis=-1) * scale
    covariance -= product(whitened, sums.explained.numpy())
    variance = np.maximum(np.square(scale[..., 0]) - np.square(whitened).sum(axis=-1), 0.0)
    assert slope is not None  # for the type checker
    return covariance, variance, slope, whitened


def squared_distance(first: ndarray, second: ndarray) -> ndarray:
    r"""Squared distances of points, `batch_shape x m x n`."""
    found = product(-2.0 * first, second.swapaxes(-1, -2))
    found += np.square(first).sum(axis=-1, keepdims=True)
    found += np.square(second).sum(axis=-1)[..., None, :]
    clipped: ndarray = np.maximum(found, 0.0, out=found)
    return clipped
