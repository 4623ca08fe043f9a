r"""Marginals at all pairs of a decision and an environmental value.

The squared exponential is a product: k((x, w), (x', w')) = k(x, x') k(w, w'). The factor over
fixed values of w is computed once, and since it is smooth it has a low rank r, so that a new
decision costs `n^2 r + n_w r^2` operations instead of `n_w n^2`. Values of w are processed in
chunks, so that nothing larger than their coordinates, `n_w x r`, is held or kept for a gradient.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch import settings
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.posterior.cache import PosteriorCache
from botorch_risk.posterior.kernels import StationaryKernel, squared_distance, squared_norms
from botorch_risk.posterior.marginals import MarginalPredictor, Marginals, has_closed_form
from botorch_risk.posterior.stationary_moments import chunk_size
from botorch_risk.posterior.t_batch import (
    TBatch,
    joint_shape,
    keeps_apart,
    original_inputs,
    scales_columns,
)

# Singular values below this, relative to the largest, are rounding.
_RANK_TOLERANCE = 1e-13
# Entries of the coordinates of all values of w, half a gigabyte; more of them go pair by pair.
_MAX_COORDINATES = 2**26
# Entries of the products of their pairs, which are held only up to here.
_MAX_PRODUCTS = 2**24


@dataclass(frozen=True)
class _Factors:
    r"""The factors that do not depend on the decision; `K_w = coordinates @ basis`.

    Attributes:
        cache: The factors of the model that these belong to.
        train_X: `batch_shape x n x d_x`, the decisions of the training data, scaled.
        norms: Their squared norms, `batch_shape x 1 x n`.
        centre: `batch_shape x 1 x d_x`.
        lengthscale: `batch_shape x 1 x d_x`.
        basis: `batch_shape x r x n`, orthonormal rows.
        coordinates: `batch_shape x n_w x r`.
        products: `batch_shape x n_w x r (r + 1) / 2`, products of pairs of coordinates, if few.
        pairs: The place of each pair in an `r x r` matrix, row by row.
        constant: `batch_shape x 1 x 1`, the prior mean.
    """

    cache: PosteriorCache
    train_X: Tensor
    norms: Tensor
    centre: Tensor
    lengthscale: Tensor
    basis: Tensor
    coordinates: Tensor
    products: Tensor | None
    pairs: Tensor
    constant: Tensor

    def quadratic_forms(self, M: Tensor) -> Tensor:
        r"""`c' M c` at the coordinates c of each value of w, for symmetric `M`."""
        if self.products is None:
            forms: Tensor = _QuadraticForms.apply(M, self.coordinates)
            return forms
        return M.flatten(-2).index_select(-1, self.pairs) @ self.products.mT


class ProductMarginals:
    r"""Posterior mean and variance at all (x, w_j) for fixed w_j, differentiable in x.

    For an exact GP in double precision with one output and a squared-exponential kernel,
    alone or in a `ScaleKernel`, without an input transform or with `Normalize`, also after an
    encoding of categories of x. Anything else is evaluated by `MarginalPredictor` at every pair.

    Args:
        model: A model with one output, w in the last columns of its inputs.
        points: `batch_shape x n_w x d_w` values of w; `n_w x d_w` for all of a batch.
        posterior_transform: As in `MarginalPredictor`.
    """

    def __init__(
        self, model: Model, points: Tensor, posterior_transform: PosteriorTransform | None = None
    ) -> None:
        self.predictor = MarginalPredictor(model, posterior_transform)
        self.points = points
        self._built: tuple[PosteriorCache, _Factors | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}

    def __call__(self, X: Tensor) -> Marginals:
        r"""Marginal moments at each pair, `batch_shape x m x n_w` each.

        The batch shape of the `batch_shape x m x d_x` decisions broadcasts with the model's;
        dimensions in front of it are BoTorch's t-batch.
        """
        model_batch, batch = self.predictor.model.batch_shape, self.points.shape[:-2]
        t_batch = TBatch.of(X, joint_shape(batch, model_batch))
        moments = self._of_replicates(t_batch.fold(X))
        return Marginals(*(t_batch.unfold(moment, points_dim=-2) for moment in moments))

    def _of_replicates(self, X: Tensor) -> Marginals:
        r"""Moments at points `batch_shape x m x d_x`, in the joint batch shape of model and w."""
        factors = self._current_factors() if self._is_product(X) else None
        if factors is None:
            return self._at_every_pair(X)
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            k_x = self._correlation(X, factors)
            latent = (k_x * factors.cache.weights) @ factors.basis.mT @ factors.coordinates.mT
            # |L^-1 (k_x o k_w)|^2 = u' M u,  M = G' G
            G = self._whitened(k_x, factors)
            explained = factors.quadratic_forms(G.mT @ G)  # batch_shape x m x n_w
            return self._in_units(latent, explained, factors, X)

    def explained_with(self, X: Tensor, columns: Tensor) -> tuple[Tensor, Tensor] | None:
        r"""What the data explain of the pairs' variance, and of their covariance with others.

        Both in units of the prior variance, differentiable in the decisions.

        Args:
            X: `batch_shape x m x d_x`, in the batch shape of the model.
            columns: `batch_shape x n x P`, the whitened correlations of other points.

        Returns:
            `batch_shape x m x n_w` and `batch_shape x m x n_w x P`; None unless the covariance is
            a product.
        """
        factors = self._current_factors() if self._is_product(X) else None
        if factors is None:
            return None
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            G = self._whitened(self._correlation(X, factors), factors)
            variance = factors.quadratic_forms(G.mT @ G)
            covariance = factors.coordinates.unsqueeze(-3) @ (G.mT @ columns.unsqueeze(-3))
            return variance, covariance

    def _correlation(self, X: Tensor, factors: _Factors) -> Tensor:
        r"""Of decisions with the training data, `batch_shape x m x n`."""
        kernel: Any = factors.cache.kernel
        Z = (self._transformed_decisions(X) - factors.centre) / factors.lengthscale
        correlation: Tensor = kernel.correlation(
            squared_distance(Z, factors.train_X, factors.norms)
        )
        return correlation

    @staticmethod
    def _whitened(k_x: Tensor, factors: _Factors) -> Tensor:
        r"""`L^-1 diag(k_x) V'` for each decision, `batch_shape x m x n x r`."""
        # One product for all decisions: a broadcast one would copy the factor for each of them.
        spread = k_x.mT.unsqueeze(-1) * factors.basis.mT.unsqueeze(-2)
        G = factors.cache.factor @ spread.flatten(-2)  # batch_shape x n x (m r)
        return G.unflatten(-1, spread.shape[-2:]).movedim(-2, -3)

    def _in_units(
        self, latent: Tensor, explained: Tensor, factors: _Factors, X: Tensor
    ) -> Marginals:
        r"""Moments in the units of the outcome, `batch_shape x m x n_w`."""
        kernel: Any = factors.cache.kernel
        units, floor = factors.cache.units, settings.min_variance.value(X.dtype)
        if units is not None:  # one affine map for all points
            scale, offset, prior = (each.unsqueeze(-1) for each in units)
            mean = torch.addcmul(offset, latent, scale)
            variance = torch.addcmul(prior, explained, prior, value=-1).clamp_min(floor)
            moments = self.predictor.through_posterior_transform(mean, variance * scale.square())
            return Marginals(*moments)
        variance = (kernel.outputscale * (1 - explained)).clamp_min(floor)
        mean = latent + factors.constant
        moments = self.predictor.to_outcome(mean.flatten(-2), variance.flatten(-2), X)
        return Marginals(*(moment.reshape(mean.shape) for moment in moments))

    def _is_product(self, X: Tensor) -> bool:
        model = self.predictor.model
        transform = getattr(model, "input_transform", None)
        return (
            X.dtype == torch.float64  # a rank cut at 1e-13 means nothing in float32
            and X.shape[-2] > 0
            and X.shape[:-2] == model.batch_shape  # one model may meet many distributions
            and has_closed_form(model, self.predictor.posterior_transform)
            and keeps_apart(transform, self.points.shape[-1])
        )

    def _at_every_pair(self, X: Tensor) -> Marginals:
        batch = joint_shape(X.shape[:-2], self.points.shape[:-2])
        shape = (*batch, X.shape[-2], self.points.shape[-2])
        pairs = _pairs(X, self.points)
        moments = self.predictor(pairs.flatten(-3, -2))
        return Marginals(*(moment.reshape(shape) for moment in moments))

    def _transformed_decisions(self, X: Tensor) -> Tensor:
        r"""Decisions `batch_shape x m x d_x` after the input transform, which keeps w apart."""
        transform: Any = self.predictor.model._modules.get("input_transform")
        if transform is None:
            return X
        if scales_columns(transform):
            # The columns of x alone: pairs with a w, which are cut off again, cost 8 % of a whole
            # loop of V-UCB.
            offset, scale = transform.offset.to(X), transform.coefficient.to(X)
            return (X - offset[..., : X.shape[-1]]) / scale[..., : X.shape[-1]]
        W = self.points[..., :1, :].to(X).expand(*X.shape[:-2], 1, self.points.shape[-1])
        return self._transformed(X, W)[..., : -W.shape[-1]]

    def _transformed(self, X: Tensor, W: Tensor) -> Tensor:
        r"""Pairs of rows of x and w, one of them a single row, after the input transform."""
        rows = max(X.shape[-2], W.shape[-2])
        X, W = (value.expand(*value.shape[:-2], rows, value.shape[-1]) for value in (X, W))
        joint: Tensor = self.predictor.model.transform_inputs(torch.cat([X, W], dim=-1))
        return joint

    def _current_factors(self) -> _Factors | None:
        cache = self.predictor.current_cache()
        if self._built is None or self._built[0] is not cache:
            with torch.no_grad():
                self._built = cache, self._build(cache)
        return self._built[1]

    def _build(self, cache: PosteriorCache) -> _Factors | None:
        kernel, d_w = cache.kernel, self.points.shape[-1]
        if not isinstance(kernel, StationaryKernel) or kernel.nu != math.inf:
            return None
        if cache.constant is None:
            return None
        X = cache.train_inputs  # centred and scaled
        d_x = X.shape[-1] - d_w
        lengthscale = kernel.lengthscale.expand(*kernel.lengthscale.shape[:-1], X.shape[-1])
        centre = cache.centre
        points = self.points.to(X).expand(*X.shape[:-2], *self.points.shape[-2:])
        decision = original_inputs(self.predictor.model)[..., :1, :-d_w].to(
            X
        )  # any: w is transformed by itself
        W = self._transformed(decision, points)[..., d_x:]
        Z = (W - centre[..., d_x:]) / lengthscale[..., d_x:]

        def cross() -> Iterator[Tensor]:
            for chunk in Z.split(chunk_size(Z, X.shape[-2]), dim=-2):
                yield kernel.correlation(squared_distance(chunk, X[..., d_x:]))

        basis = _row_basis(cross())
        if Z.shape[:-1].numel() * basis.shape[-2] > _MAX_COORDINATES:
            return None
        coordinates = torch.cat([chunk @ basis.mT for chunk in cross()], dim=-2)
        return _Factors(
            cache=cache,
            train_X=X[..., :d_x],
            norms=squared_norms(X[..., :d_x]),
            centre=centre[..., :d_x],
            lengthscale=lengthscale[..., :d_x],
            basis=basis,
            coordinates=coordinates,
            products=_products(coordinates),
            pairs=_places(basis),
            constant=cache.constant.unsqueeze(-1),
        )


class _QuadraticForms(torch.autograd.Function):
    r"""`c' M c` at rows c of coordinates, chunk by chunk in both directions."""

    @staticmethod
    def forward(ctx: Any, M: Tensor, coordinates: Tensor) -> Tensor:
        ctx.save_for_backward(coordinates)
        forms = [((c @ M) * c).sum(dim=-1) for c in _QuadraticForms.chunks(M, coordinates)]
        return torch.cat(forms, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (coordinates,) = ctx.saved_tensors
        M = gradient.new_zeros(*gradient.shape[:-1], *2 * coordinates.shape[-1:])
        start = 0
        for c in _QuadraticForms.chunks(M, coordinates):
            part = gradient.narrow(-1, start, c.shape[-2]).unsqueeze(-1)
            M += (part * c).mT @ c
            start += c.shape[-2]
        return M, None

    @staticmethod
    def chunks(M: Tensor, coordinates: Tensor) -> tuple[Tensor, ...]:
        r"""Coordinates `batch_shape x 1 x chunk x r` of some values of w at a time."""
        size = chunk_size(coordinates, M.shape[-3] * M.shape[-1])
        return coordinates.unsqueeze(-3).split(size, dim=-2)


def _products(coordinates: Tensor) -> Tensor | None:
    r"""Products of pairs of coordinates, doubled off the diagonal; `None` if there are too many.

    With them a quadratic form is one matrix product with the upper triangle of its matrix.
    """
    rank = coordinates.shape[-1]
    if coordinates.shape[:-1].numel() * rank * (rank + 1) // 2 > _MAX_PRODUCTS:
        return None
    rows, columns = torch.triu_indices(rank, rank, device=coordinates.device)
    products = coordinates[..., rows] * coordinates[..., columns]
    products[..., rows != columns] *= 2
    return products


def _places(basis: Tensor) -> Tensor:
    r"""The places of the upper triangle of an `r x r` matrix, row by row."""
    rank = basis.shape[-2]
    rows, columns = torch.triu_indices(rank, rank, device=basis.device)
    return rows * rank + columns


def _row_basis(chunks: Iterator[Tensor]) -> Tensor:
    r"""Orthonormal rows `... x r x n` that span the rows of a matrix `... x n_w x n`, in chunks."""
    # The triangular factor of what has been seen so far has the row space and the singular values
    # of all of it, in n rows: the matrix itself is never held.
    root = next(chunks)
    for chunk in chunks:
        root = torch.linalg.qr(torch.cat([root, chunk], dim=-2), mode="r").R
    _, values, basis = torch.linalg.svd(root, full_matrices=False)
    # One rank for the batch, the largest: a ragged one could not be stacked.
    rank = int((values > _RANK_TOLERANCE * values[..., :1]).sum(dim=-1).max())
    return basis[..., :rank, :]


def _pairs(X: Tensor, points: Tensor) -> Tensor:
    batch = joint_shape(X.shape[:-2], points.shape[:-2])
    shape = (*batch, X.shape[-2], points.shape[-2])
    X = X.unsqueeze(-2).expand(*shape, X.shape[-1])
    points = points.to(X).unsqueeze(-3).expand(*shape, points.shape[-1])
    return torch.cat([X, points], dim=-1)
