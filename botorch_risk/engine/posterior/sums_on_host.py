r"""What a few readings say about weighted sums of an outcome, in NumPy.

`product` and `weighted_sums` have the same formulas for tensors. At four decisions the arithmetic
takes a third of the time of the PyTorch calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.posterior.kernels_on_host import profile_and_slope
from botorch_risk.engine.posterior.one_thread import MOST_MULTIPLICATIONS, product

# Up to so many entries of the largest arrays.
MOST_ENTRIES = 2**15


@dataclass(frozen=True, eq=False)
class SumsOverW:
    r"""What readings at (x, w_j) say about sums over the same `w_j`, for `B` replicates.

    Here `k` correlates x with the decisions of the data and of the sums, `b` correlates w_j with
    the data, and `F` is the factor of the data:

        v = scale F (k o b),   variance = scale^2 - |v|^2
        covariance_p = scale k_p q_pj - v' columns_p
    """

    sums: Any
    factors: Any  # the factors of a product kernel
    centre: ndarray  # B x 1 x d_x, like the lengthscale in the units of the decisions
    lengthscale: ndarray  # B x 1 x d_x
    inputs: ndarray  # the decisions of the data, then of the sums, scaled, B x (n + P) x d_x
    factor: ndarray  # B x n x n
    columns: ndarray  # whitened correlations of the data with the sums, B x n x P
    basis: ndarray  # B x r x n
    coordinates: ndarray  # B x n_w x r
    of_w: ndarray  # covariances of the sums with each w at their own decision, B x n_w x P
    scale: ndarray  # B x 1

    @classmethod
    def of(cls, sums: Any, factors: Any, of_w: Tensor, decisions: Tensor) -> SumsOverW:
        r"""Build from tensors; the sums are at scaled `decisions`, `B x P x d_x`."""

        def batched(part: Tensor) -> ndarray:
            return part.detach().reshape(len(decisions), *part.shape[-2:]).numpy()

        return cls(
            sums,
            factors,
            centre=batched(factors.centre),
            lengthscale=batched(factors.lengthscale),
            inputs=np.concatenate([batched(factors.train_X), decisions.numpy()], axis=-2),
            factor=batched(factors.cache.factor),
            columns=sums.explained.numpy(),
            basis=batched(factors.basis),
            coordinates=batched(factors.coordinates),
            of_w=np.ascontiguousarray(of_w.mT.numpy()),
            scale=sums.points.prior.scale[:, :1].numpy(),
        )

    @cached_property
    def noise(self) -> ndarray:
        r"""The variance of the noise of every reading, `B x 1`."""
        at = self.sums.points.prior.inputs[..., :1, :]
        noise: ndarray = self.sums.process.noise_of_a_reading(at).detach().numpy()
        return noise

    def serves(self, num_decisions: int) -> bool:
        r"""Whether there are few decisions, and each product is too small to start threads."""
        B, rank, n = self.basis.shape
        few = B * num_decisions * n * rank <= MOST_ENTRIES
        return few and n * n * rank <= MOST_MULTIPLICATIONS

    def moments(self, X: ndarray) -> tuple[ndarray, ndarray]:
        r"""Covariances divided by the scale, `B x m x n_w x P`, and variances `B x m x n_w`."""
        return self._moments(*self._correlations(X)[1:])

    @np.errstate(over="ignore", invalid="ignore")  # of a variance of 0, and masked
    def reduced(
        self, X: ndarray, reduce: Callable[[ndarray], Any], needs_gradient: bool = True
    ) -> tuple[ndarray, ndarray | None]:
        r"""A number per decision, from the moves of the sums per standard deviation of a reading.

        Returns numbers `B x m`, and gradients in the decisions `B x m x d_x` or None.

        Args:
            X: Decisions `B x m x d_x`.
            reduce: Maps the moves `B x m x n_w x P` to numbers and indices of w, `B x m` each, and
                the gradients of the numbers in the moves at that w, `B x m x P`.
            needs_gradient: Whether the gradient of the number is needed.
        """
        Z, of_data, of_sums = self._correlations(X)
        covariance, variance = self._moments(of_data, of_sums)
        reading = np.maximum(variance + self.noise[..., None], np.finfo(X.dtype).tiny)
        deviation = np.sqrt(reading) / self.scale[..., None]
        slopes = np.divide(covariance, deviation[..., None], out=covariance)
        value, index, of_slopes = reduce(slopes)
        if not needs_gradient:
            return value, None
        at, replicate = index[..., None], np.arange(len(index))[:, None]
        slope = np.take_along_axis(slopes, at[..., None], axis=-2)[..., 0, :]
        deviation, variance = (
            np.take_along_axis(each, at, axis=-1) for each in (deviation, variance)
        )
        # All in units of the scale: of `covariance / scale` and `variance / scale^2`.
        of_covariance = of_slopes / deviation
        of_variance = -0.5 * (of_covariance * slope).sum(axis=-1, keepdims=True) / deviation
        of_variance = np.where(variance <= 0, 0.0, of_variance)  # it was clamped
        of_w = self.coordinates[replicate, index] @ self.basis  # B x m x n
        whitened = product(of_data * of_w, self.factor.swapaxes(-1, -2))
        pull = product(of_covariance, self.columns.swapaxes(-1, -2)) + 2 * of_variance * whitened
        of_data = -product(pull, self.factor) * of_w * of_data
        of_sums = of_covariance * self.of_w[replicate, index] * of_sums
        pull = np.concatenate([of_data, of_sums], axis=-1)
        gradient = product(pull, self.inputs) - pull.sum(axis=-1, keepdims=True) * Z
        return value, gradient / self.lengthscale

    def _correlations(self, X: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        r"""Scaled decisions, and how they correlate with the data and with the sums."""
        Z = (X - self.centre) / self.lengthscale
        k = squared_distance(Z, self.inputs)
        k *= -0.5
        np.exp(k, out=k)
        n = self.basis.shape[-1]
        return Z, k[..., :n], k[..., n:]

    def _moments(self, of_data: ndarray, of_sums: ndarray) -> tuple[ndarray, ndarray]:
        # For every w_j, `v` combines the few rows of the basis.
        (B, rank, n), m = self.basis.shape, of_data.shape[1]
        rows = (of_data[:, :, None] * self.basis[:, None]).reshape(B, m * rank, n)
        rows = product(rows, self.factor.swapaxes(-1, -2))
        columns = product(rows, self.columns).reshape(B, m, rank, -1)
        rows = rows.reshape(B, m, rank, n)
        coordinates = self.coordinates[:, None]
        covariance = of_sums[:, :, None] * self.of_w[:, None]
        covariance -= product(coordinates, columns)
        squares = product(coordinates, rows @ rows.swapaxes(-1, -2))
        explained = (squares * coordinates).sum(axis=-1)
        variance = np.square(self.scale)[..., None] * np.maximum(1 - explained, 0.0)
        return covariance, variance


def moments_and_slope(
    Z: ndarray, scale: ndarray, sums: Any
) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    r"""Covariances, variances, and the correlations' slopes and whitened values: `_MomentsAt`."""
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
