r"""Bounds of a few decisions at all values of w, with their gradient, in NumPy.

At ten decisions the arithmetic is a fraction of the time of the PyTorch calls. `pair_bound` has the
same formulas for tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from botorch_risk.engine.posterior.one_thread import MOST_MULTIPLICATIONS, product

# Up to so many entries of the whitened factors, or bounds, of all decisions and models together,
# NumPy is the faster one on one thread.
MOST_ENTRIES = 2**17

# `Reduction` of arrays.
ReductionOnHost = Callable[[ndarray], tuple[ndarray, ndarray | None]]


@dataclass(frozen=True, eq=False)
class PairBoundOnHost:
    r"""`mean + width * standard deviation` from `ProductFactors`, which describes the arrays.

    Arrays that are multiplied by one matrix per decision have a dimension of size 1 for decisions.
    """

    train_X: ndarray
    norms: ndarray
    lengthscale: ndarray
    factor: ndarray  # batch_shape x 1 x n x n
    weights: ndarray  # batch_shape x 1 x n
    basis: ndarray
    columns: ndarray  # batch_shape x 1 x n x r, the transposed basis
    coordinates: ndarray
    products: ndarray
    transposed: tuple[ndarray, ...]  # the factor, the coordinates and the products
    pairs: ndarray
    offset: ndarray
    scale: ndarray
    prior: ndarray

    @classmethod
    def of(cls, factors: Any) -> PairBoundOnHost:
        names = ("train_X", "norms", "lengthscale", "basis", "coordinates", "products", "pairs")
        parts = {name: getattr(factors, name).detach().numpy() for name in names}
        units = {name: getattr(factors.outcome, name) for name in ("offset", "scale", "prior")}
        factor = factors.cache.factor.detach().numpy()[..., None, :, :]
        others = factor, parts["coordinates"], parts["products"]
        return cls(
            factor=factor,
            weights=factors.cache.weights.detach().numpy(),
            columns=_transposed(parts["basis"])[..., None, :, :],
            transposed=tuple(_transposed(each) for each in others),
            **parts,
            **{name: each.detach().numpy() for name, each in units.items()},
        )

    def serves(self, num_decisions: int) -> bool:
        r"""Whether NumPy is faster for so many decisions, counted over all models."""
        rank, n = self.basis.shape[-2:]
        entries = num_decisions * max(n * rank, self.coordinates.shape[-2])
        return entries <= MOST_ENTRIES and n * n * rank <= MOST_MULTIPLICATIONS

    def __call__(
        self, Z: ndarray, width: ndarray, floor: ndarray, reduce: ReductionOnHost
    ) -> tuple[ndarray, ndarray | None]:
        r"""`reduced_bounds` of scaled decisions; `floor` is the least variance."""
        distance = (-2.0 * Z) @ self.train_X.swapaxes(-1, -2)
        distance += np.square(Z).sum(axis=-1, keepdims=True)
        distance += self.norms
        np.maximum(distance, 0.0, out=distance)
        distance *= -0.5
        k_x = np.exp(distance, out=distance)
        G = self.factor @ (k_x[..., None] * self.columns)  # batch_shape x m x n x r
        M = G.swapaxes(-1, -2) @ G
        upper = M.reshape(*M.shape[:-2], -1)[..., self.pairs]
        _, of_w, of_pairs = self.transposed
        variance = self.prior - self.prior * product(upper, of_pairs)
        deviation = np.sqrt(np.maximum(variance, floor))
        mean = product((k_x * self.weights) @ self.columns[..., 0, :, :], of_w)
        value, slope = reduce(self.offset + self.scale * mean + width * deviation)
        if slope is None:
            return value, None
        # d deviation = -prior d explained / (2 deviation), and 0 of a clamped variance.
        share = np.where(variance <= floor, 0.0, -0.5 * self.prior * width / deviation)
        if slope.dtype.kind == "i":
            sensitivity = self._of_one(k_x, share, slope[..., None])
        else:
            sensitivity = self._of_all(G, share * slope, slope)
        sensitivity *= k_x
        gradient = sensitivity @ self.train_X
        gradient -= sensitivity.sum(axis=-1, keepdims=True) * Z
        return value, gradient / self.lengthscale

    def _of_all(self, G: ndarray, share: ndarray, slope: ndarray) -> ndarray:
        r"""The derivative in the correlations of x, `batch_shape x m x n`."""
        square = np.zeros((*G.shape[:-2], G.shape[-1] ** 2))
        square[..., self.pairs] = product(share, self.products)
        square = square.reshape(*G.shape[:-2], *2 * G.shape[-1:])
        pull = G @ (square + square.swapaxes(-1, -2))
        pull = ((self.transposed[0] @ pull) * self.columns).sum(axis=-1)
        return pull + self.scale * self.weights * (product(slope, self.coordinates) @ self.basis)

    def _of_one(self, k_x: ndarray, share: ndarray, index: ndarray) -> ndarray:
        r"""Likewise, of the bound at one value of w for each decision."""
        # Rows by one index: `take_along_axis` costs 20 us.
        n_w, rank = self.coordinates.shape[-2:]
        models = index.shape[:-2]
        first = n_w * np.arange(math.prod(models)).reshape(*models, 1)
        k_w = self.coordinates.reshape(-1, rank)[first + index[..., 0]] @ self.basis
        factor, of_factor = self.factor[..., 0, :, :], self.transposed[0][..., 0, :, :]
        pull = product(product(k_x * k_w, of_factor), factor)
        share = share.reshape(-1, n_w)[np.arange(index.size), index.ravel()].reshape(index.shape)
        return (2.0 * share * pull + self.scale * self.weights) * k_w


def _transposed(matrices: ndarray) -> ndarray:
    r"""In a layout of its own, as products with it are then faster."""
    return np.ascontiguousarray(matrices.swapaxes(-1, -2))
