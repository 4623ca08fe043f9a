r"""What is computed once for all decisions if the kernel is a product of one of x and one of w."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from gpytorch import settings
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.engine.posterior.cache import OutcomeUnits, PosteriorCache
from botorch_risk.engine.posterior.kernels import squared_distance
from botorch_risk.engine.posterior.pair_bound_on_host import PairBoundOnHost
from botorch_risk.engine.posterior.stationary_moments import chunk_size


class Outcome(NamedTuple):
    r"""Map latent moments to the outcome's, after any posterior transform; `... x 1 x 1` each."""

    offset: Tensor  # the offset of the mean
    scale: Tensor  # its factor; below 0 if the outcome is minimised
    square: Tensor
    prior: Tensor  # the prior variance of the outcome

    @classmethod
    def of(cls, units: OutcomeUnits, transform: PosteriorTransform | None) -> Outcome:
        scale, offset, prior = (each.unsqueeze(-1) for each in units)
        if transform is not None:
            known: Any = transform.weights  # on the host, if the transform was made there
            weight = known.to(scale)
            scale, offset = weight * scale, transform.offset + weight * offset
        return cls(offset, scale, scale.square(), prior * scale.square())


@dataclass(frozen=True)
class ProductFactors:
    r"""The factors that do not depend on the decision; `K_w = coordinates @ basis`."""

    cache: PosteriorCache  # the factors of the model that these belong to
    train_X: Tensor  # batch_shape x n x d_x, the decisions of the training data, scaled
    norms: Tensor  # their squared norms, batch_shape x 1 x n
    points: Tensor  # batch_shape x n_w x d_w, the values of w, scaled
    centre: Tensor  # batch_shape x 1 x d_x, in the units of the decisions if these are only scaled
    lengthscale: Tensor  # batch_shape x 1 x d_x, likewise
    is_scaled: bool  # whether the input transform only shifts and scales the decisions
    outcome: Outcome  # the map to the outcome, affine and the same for all points
    basis: Tensor  # batch_shape x r x n, orthonormal rows
    coordinates: Tensor  # batch_shape x n_w x r
    # `batch_shape x n_w x r (r + 1) / 2`, products of pairs of coordinates, if few.
    products: Tensor | None
    pairs: Tensor  # the index of each pair in an r x r matrix, row by row

    def scaled(self, X: Tensor) -> Tensor:
        r"""Decisions `batch_shape x m x d_x`, scaled like the training data."""
        return (X - self.centre) / self.lengthscale

    def correlation(self, Z: Tensor) -> Tensor:
        r"""The correlations of scaled decisions with the training data, `batch_shape x m x n`."""
        kernel: Any = self.cache.kernel
        correlation: Tensor = kernel.correlation(squared_distance(Z, self.train_X, self.norms))
        return correlation

    def mean(self, k_x: Tensor) -> Tensor:
        r"""The posterior mean at each value of w, `batch_shape x m x n_w`."""
        latent = (k_x * self.cache.weights) @ self.basis.mT @ self.coordinates.mT
        return torch.addcmul(self.outcome.offset, latent, self.outcome.scale)

    def mean_pulled_back(self, slope: Tensor) -> Tensor:
        r"""The derivative of a sum of means in `k_x`, for slopes `batch_shape x m x n_w`."""
        weights = self.outcome.scale * self.cache.weights
        return ((slope @ self.coordinates) @ self.basis).mul_(weights)

    def whitened(self, k_x: Tensor, columns: Tensor | None = None) -> Tensor:
        r"""`L^-1 diag(k_x) C` for each decision, `batch_shape x m x n x r`.

        `columns` are the `C`, `batch_shape x n x r`; the transposed basis by default.
        """
        columns = self.basis.mT if columns is None else columns
        # One product for all decisions: a broadcast one would copy the factor for each of them.
        return self._whiten(self.cache.factor, k_x.mT.unsqueeze(-1) * columns.unsqueeze(-2))

    def unwhitened(self, G: Tensor) -> Tensor:
        r"""`L^-T G`, likewise."""
        return self._whiten(self.cache.factor.mT, G.movedim(-3, -2))

    @staticmethod
    def _whiten(factor: Tensor, wide: Tensor) -> Tensor:
        r"""A factor times matrices `batch_shape x n x m x r`, as `batch_shape x m x n x r`."""
        return (factor @ wide.flatten(-2)).unflatten(-1, wide.shape[-2:]).movedim(-2, -3)

    def variance(self, G: Tensor) -> Tensor:
        r"""The posterior variance at each value of w, `batch_shape x m x n_w`, not yet clamped."""
        # |L^-1 (k_x o k_w)|^2 = c' M c,  M = G' G
        explained = self.quadratic_forms(G.mT @ G)
        return torch.addcmul(self.outcome.prior, explained, self.outcome.prior, value=-1)

    def quadratic_forms(self, M: Tensor) -> Tensor:
        r"""`c' M c` at the coordinates c of each value of w, for symmetric `M`."""
        if self.products is None:
            forms: Tensor = _QuadraticForms.apply(M, self.coordinates)
            return forms
        return M.flatten(-2).index_select(-1, self.pairs) @ self.products.mT

    def sum_of_squares(self, weights: Tensor) -> Tensor:
        r"""`2 sum_j s_j c_j c_j'`, `batch_shape x m x r x r`, for weights `batch_shape x m x n_w`.

        The derivative of `sum_j s_j |G c_j|^2` in `G` is `G` times this matrix.
        """
        if self.products is None:
            return _QuadraticForms.pulled_back(weights, self.coordinates).mul_(2)
        rank = self.coordinates.shape[-1]
        # Products off the diagonal are doubled already; the sum with the transpose doubles it too.
        upper = weights.new_zeros(*weights.shape[:-1], rank * rank)
        upper.index_copy_(-1, self.pairs, weights @ self.products)
        square = upper.unflatten(-1, (rank, rank))
        return square + square.mT

    def least_variance(self, dtype: torch.dtype) -> Tensor:
        r"""GPyTorch's floor of variances, in the units of the outcome."""
        return self.outcome.square * settings.min_variance.value(dtype)

    @cached_property
    def on_host(self) -> PairBoundOnHost | None:
        r"""The factors in NumPy; None on a device, or without products of coordinates."""
        is_here = self.train_X.device.type == "cpu" and self.train_X.dtype == torch.float64
        return PairBoundOnHost.of(self) if is_here and self.products is not None else None


class _QuadraticForms(torch.autograd.Function):
    r"""`c' M c` at rows c of coordinates, chunk by chunk in both directions."""

    @staticmethod
    def forward(ctx: Any, M: Tensor, coordinates: Tensor) -> Tensor:
        ctx.save_for_backward(coordinates)  # the forms are linear in `M`
        forms = [((c @ M) * c).sum(dim=-1) for c in _QuadraticForms.chunks(M, coordinates)]
        return torch.cat(forms, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _QuadraticForms.pulled_back(gradient, *ctx.saved_tensors), None

    @staticmethod
    def pulled_back(weights: Tensor, coordinates: Tensor) -> Tensor:
        r"""`sum_j s_j c_j c_j'`."""
        M = weights.new_zeros(*weights.shape[:-1], *2 * coordinates.shape[-1:])
        start = 0
        for c in _QuadraticForms.chunks(M, coordinates):
            part = weights.narrow(-1, start, c.shape[-2]).unsqueeze(-1)
            M += (part * c).mT @ c
            start += c.shape[-2]
        return M

    @staticmethod
    def chunks(M: Tensor, coordinates: Tensor) -> tuple[Tensor, ...]:
        r"""Coordinates `batch_shape x 1 x chunk x r` of some values of w at a time."""
        size = chunk_size(coordinates, M.shape[-3] * M.shape[-1])
        return coordinates.unsqueeze(-3).split(size, dim=-2)
