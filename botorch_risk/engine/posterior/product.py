r"""Marginals at all pairs of a decision and an environmental value.

The squared exponential is a product: k((x, w), (x', w')) = k(x, x') k(w, w'). The factor over fixed
values of w is computed once and, being smooth, has a low rank r. A new decision then costs
`n^2 r + n_w r^2` operations instead of `n_w n^2`. Values of w are processed in chunks, so nothing
larger than their coordinates, `n_w x r`, is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from gpytorch import settings
from torch import Tensor
from torch.autograd.function import once_differentiable

from botorch_risk.engine.posterior.cache import OutcomeUnits, PosteriorCache
from botorch_risk.engine.posterior.kernels import StationaryKernel, squared_distance, squared_norms
from botorch_risk.engine.posterior.moments import Marginals
from botorch_risk.engine.posterior.row_basis import row_basis
from botorch_risk.engine.posterior.stationary_moments import chunk_size, pull_back
from botorch_risk.points import TBatch, joint_shape, keeps_apart, original_inputs, scales_columns
from botorch_risk.steady import moved

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.belief import Belief
    from botorch_risk.engine.posterior.weighted_sums import WeightedSums

# Bounds of each decision to the one that counts and its index.
Pick = Callable[[Tensor], tuple[Tensor, Tensor]]
# Entries of the coordinates of all values of w, half a gigabyte; more of them go pair by pair.
_MAX_COORDINATES = 2**26
# Entries of the products of their pairs, which are held only up to here.
_MAX_PRODUCTS = 2**24


class _Outcome(NamedTuple):
    r"""Map latent moments to the outcome's, after any posterior transform; `... x 1 x 1` each.

    Attributes:
        offset: The offset of the mean.
        scale: Its factor; below 0 if the outcome is minimised.
        square: The square of the scale.
        prior: The prior variance of the outcome.
    """

    offset: Tensor
    scale: Tensor
    square: Tensor
    prior: Tensor

    @classmethod
    def of(cls, units: OutcomeUnits, transform: PosteriorTransform | None) -> _Outcome:
        scale, offset, prior = (each.unsqueeze(-1) for each in units)
        if transform is not None:
            known: Any = transform.weights  # on the host, if the transform was made there
            weight = known.to(scale)
            scale, offset = weight * scale, transform.offset + weight * offset
        return cls(offset, scale, scale.square(), prior * scale.square())


@dataclass(frozen=True)
class _Factors:
    r"""The factors that do not depend on the decision; `K_w = coordinates @ basis`.

    Attributes:
        cache: The factors of the model that these belong to.
        train_X: `batch_shape x n x d_x`, the decisions of the training data, scaled.
        norms: Their squared norms, `batch_shape x 1 x n`.
        centre: `batch_shape x 1 x d_x`, in the units of the decisions if these are only scaled.
        lengthscale: `batch_shape x 1 x d_x`, likewise.
        is_scaled: Whether the input transform only shifts and scales the decisions.
        outcome: The map to the outcome, affine and the same for all points.
        basis: `batch_shape x r x n`, orthonormal rows.
        coordinates: `batch_shape x n_w x r`.
        products: `batch_shape x n_w x r (r + 1) / 2`, products of pairs of coordinates, if few.
        pairs: The index of each pair in an `r x r` matrix, row by row.
    """

    cache: PosteriorCache
    train_X: Tensor
    norms: Tensor
    centre: Tensor
    lengthscale: Tensor
    is_scaled: bool
    outcome: _Outcome
    basis: Tensor
    coordinates: Tensor
    products: Tensor | None
    pairs: Tensor

    def quadratic_forms(self, M: Tensor) -> Tensor:
        r"""`c' M c` at the coordinates c of each value of w, for symmetric `M`."""
        if self.products is None:
            forms: Tensor = _QuadraticForms.apply(M, self.coordinates)
            return forms
        return M.flatten(-2).index_select(-1, self.pairs) @ self.products.mT

    def least_variance(self, dtype: torch.dtype) -> Tensor:
        r"""GPyTorch's floor of variances, in the units of the outcome."""
        return self.outcome.square * settings.min_variance.value(dtype)


class ProductMarginals:
    r"""Posterior mean and variance at all (x, w_j) for fixed w_j, differentiable in x.

    For an exact GP in double precision with one output and a squared-exponential kernel, alone or
    in a `ScaleKernel`, without an input transform or with `Normalize`, also after an encoding of
    categories of x. Other models are evaluated by `Belief` at every pair.

    Args:
        belief: Of a model with one output, w in the last columns of its inputs.
        points: `batch_shape x n_w x d_w` values of w; `n_w x d_w` for all of a batch.
    """

    def __init__(self, belief: Belief, points: Tensor) -> None:
        self.belief, self.points = belief, points
        self._built: tuple[PosteriorCache, _Factors | None] | None = None
        self._sums: tuple[WeightedSums, Tensor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None, "_sums": None}

    def __call__(self, X: Tensor) -> Marginals:
        r"""Marginal moments at each pair, `batch_shape x m x n_w` each.

        The batch shape of the `batch_shape x m x d_x` decisions broadcasts with the model's;
        dimensions in front of it are BoTorch's t-batch.
        """
        model_batch, batch = self.belief.batch_shape, self.points.shape[:-2]
        t_batch = TBatch.of(X, joint_shape(batch, model_batch))
        moments = self._of_replicates(t_batch.fold(X))
        return Marginals(*(t_batch.unfold(moment, points_dim=-2) for moment in moments))

    def mean(self, X: Tensor) -> Tensor:
        r"""The means alone, `batch_shape x m x n_w`: without the factorisation of variances."""
        model_batch, batch = self.belief.batch_shape, self.points.shape[:-2]
        t_batch = TBatch.of(X, joint_shape(batch, model_batch))
        return t_batch.unfold(self._mean_of_replicates(t_batch.fold(X)), points_dim=-2)

    def _mean_of_replicates(self, X: Tensor) -> Tensor:
        factors = self._current_factors() if self._is_product(X) else None
        if factors is None:
            pairs = _pairs(X, self.points)
            return self.belief.mean(pairs.flatten(-3, -2)).unflatten(-1, pairs.shape[-3:-1])
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            return self._mean(self._correlation(self._scaled(X, factors), factors), factors)

    @staticmethod
    def _mean(k_x: Tensor, factors: _Factors) -> Tensor:
        latent = (k_x * factors.cache.weights) @ factors.basis.mT @ factors.coordinates.mT
        return torch.addcmul(factors.outcome.offset, latent, factors.outcome.scale)

    def _of_replicates(self, X: Tensor) -> Marginals:
        r"""Moments at points `batch_shape x m x d_x`, in the joint batch shape of model and w."""
        factors = self._current_factors() if self._is_product(X) else None
        if factors is None:
            return self._at_every_pair(X)
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            k_x = self._correlation(self._scaled(X, factors), factors)
            return self._moments(k_x, factors, X.dtype)

    @classmethod
    def _moments(cls, k_x: Tensor, factors: _Factors, dtype: torch.dtype) -> Marginals:
        # |L^-1 (k_x o k_w)|^2 = u' M u,  M = G' G
        G = cls._whitened(k_x, factors)
        explained = factors.quadratic_forms(G.mT @ G)  # batch_shape x m x n_w
        outcome, mean = factors.outcome, cls._mean(k_x, factors)
        variance = torch.addcmul(outcome.prior, explained, outcome.prior, value=-1)
        return Marginals(mean, variance.clamp_min(factors.least_variance(dtype)))

    def picked(self, X: Tensor, width: Tensor, pick: Pick) -> Tensor:
        r"""The bound `mean + width * deviation` that a rule picks for each decision.

        Differentiable in the decisions through the picked pair alone.

        Args:
            X: `batch_shape x m x d_x`.
            width: Broadcastable to `batch_shape x m`; below 0 for lower bounds.
            pick: Maps bounds `batch_shape x m x n_w` to one per decision and its index,
                `batch_shape x m` each.
        """
        factors = self._current_factors() if self._is_product(X) else None
        if factors is None or not factors.is_scaled:
            return self.belief.picked(_pairs(X, self.points), width, pick)
        picked: Tensor = _Picked.apply(X, width.unsqueeze(-1), pick, factors)
        return picked

    def moments_with(self, sums: WeightedSums, X: Tensor) -> tuple[Tensor, ...] | None:
        r"""Covariances of the outcomes at all (x, w_j) with sums over the same w_j, and variances.

        Differentiable in the decisions.

        Args:
            sums: Of groups of one decision under all `w_j`.
            X: `B x m x d_x`.

        Returns:
            Covariances `B x m x n_w x P` over the scale of the outcome at each decision, the
            scales `B x m`, and variances `B x m x n_w`; None unless the covariance is a product.
        """
        prior, batch_shape = sums.process.prior, self.belief.model.batch_shape
        decisions, columns = (
            part.reshape(*batch_shape, *part.shape[-2:]) for part in (X, sums.explained)
        )
        factors = self._current_factors() if self._is_product(decisions) else None
        if factors is None:
            return None
        explained, covariance = (
            each.reshape(*X.shape[:2], *each.shape[len(batch_shape) + 1 :])
            for each in self._explained_with(decisions, columns, factors)
        )
        # Any w will do for the decisions: x is scaled by itself, and the squared exponential of
        # (x, w) is a product of one of x and one of w.
        d_w, n_w = self.points.shape[-1], self.points.shape[-2]
        W = moved(self.points, X)[..., :1, :].expand(*X.shape[:-1], d_w)
        at, of_sums = prior.points(torch.cat([X, W], dim=-1)), sums.points.prior
        first, second = (
            each.inputs.expand(*each.scale.shape, -1)[..., :-d_w] for each in (at, of_sums)
        )
        of_x = prior.correlation(first, second[:, ::n_w])  # B x m x P
        of_w = self._of_sums(sums).mT.unsqueeze(-3)
        variance = at.variance.unsqueeze(-1) * (1 - explained).clamp_min(0.0)
        return of_x.unsqueeze(-2) * of_w - covariance, at.scale, variance

    def _of_sums(self, sums: WeightedSums) -> Tensor:
        r"""`B x P x n_w` covariances of the sums with each w at their own decision."""
        if self._sums is None or self._sums[0] is not sums:
            prior, grid = sums.points.prior, sums.weights.shape[-2:]
            W = prior.inputs.expand(*prior.scale.shape, -1).unflatten(-2, grid)[:, 0]
            W = W[..., -self.points.shape[-1] :]
            scaled = sums.weights * prior.scale.unflatten(-1, grid)
            with torch.no_grad():
                self._sums = sums, scaled @ sums.process.prior.correlation(W, W)
        return self._sums[1]

    def _explained_with(
        self, X: Tensor, columns: Tensor, factors: _Factors
    ) -> tuple[Tensor, Tensor]:
        r"""The parts of variances and covariances that the data explain, per prior variance.

        `batch_shape x m x n_w` and `batch_shape x m x n_w x P`, of `batch_shape x m x d_x`
        decisions and whitened correlations `batch_shape x n x P`.
        """
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            k_x = self._correlation(self._scaled(X, factors), factors)
            G = self._whitened(k_x, factors)
            variance = factors.quadratic_forms(G.mT @ G)
            covariance = factors.coordinates.unsqueeze(-3) @ (G.mT @ columns.unsqueeze(-3))
            return variance, covariance

    def _scaled(self, X: Tensor, factors: _Factors) -> Tensor:
        r"""Decisions `batch_shape x m x d_x`, scaled like the training data."""
        if not factors.is_scaled:
            W = moved(self.points, X)[..., :1, :].expand(*X.shape[:-2], 1, self.points.shape[-1])
            X = self._transformed(X, W)[..., : -W.shape[-1]]
        return (X - factors.centre) / factors.lengthscale

    @staticmethod
    def _correlation(Z: Tensor, factors: _Factors) -> Tensor:
        r"""The correlations of decisions with the training data, `batch_shape x m x n`."""
        kernel: Any = factors.cache.kernel
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

    @property
    def is_product(self) -> bool:
        r"""Whether the kernel is one of x times one of w."""
        kernel = self.belief.current_cache().kernel
        transform = getattr(self.belief.model, "input_transform", None)
        is_smooth = kernel is not None and kernel.nu == math.inf
        return is_smooth and keeps_apart(transform, self.points.shape[-1])

    def _is_product(self, X: Tensor) -> bool:
        model = self.belief.model
        transform = getattr(model, "input_transform", None)
        return (
            X.dtype == torch.float64  # a rank cut at 1e-13 means nothing in float32
            and X.shape[-2] > 0
            and X.shape[:-2] == model.batch_shape  # one model may meet many distributions
            and self.belief.closed_form
            and keeps_apart(transform, self.points.shape[-1])
        )

    def _at_every_pair(self, X: Tensor) -> Marginals:
        batch = joint_shape(X.shape[:-2], self.points.shape[:-2])
        shape = (*batch, X.shape[-2], self.points.shape[-2])
        pairs = _pairs(X, self.points)
        moments = self.belief(pairs.flatten(-3, -2))
        return Marginals(*(moment.reshape(shape) for moment in moments))

    def _transformed(self, X: Tensor, W: Tensor) -> Tensor:
        r"""Pairs of rows of x and w, one of them a single row, after the input transform."""
        rows = max(X.shape[-2], W.shape[-2])
        X, W = (value.expand(*value.shape[:-2], rows, value.shape[-1]) for value in (X, W))
        joint: Tensor = self.belief.model.transform_inputs(torch.cat([X, W], dim=-1))
        return joint

    def _current_factors(self) -> _Factors | None:
        cache = self.belief.current_cache()
        if self._built is None or self._built[0] is not cache:
            with torch.no_grad():
                self._built = cache, self._build(cache)
        return self._built[1]

    def _build(self, cache: PosteriorCache) -> _Factors | None:
        kernel, d_w = cache.kernel, self.points.shape[-1]
        if not isinstance(kernel, StationaryKernel) or kernel.nu != math.inf:
            return None
        if cache.units is None:  # the way to the outcome may depend on x and on w
            return None
        X = cache.train_inputs  # centred and scaled
        d_x = X.shape[-1] - d_w
        lengthscale = kernel.lengthscale.expand(*kernel.lengthscale.shape[:-1], X.shape[-1])
        centre = cache.centre
        points = moved(self.points, X).expand(*X.shape[:-2], *self.points.shape[-2:])
        decision = original_inputs(self.belief.model)[..., :1, :-d_w].to(
            X
        )  # any: w is transformed by itself
        W = self._transformed(decision, points)[..., d_x:]
        Z = (W - centre[..., d_x:]) / lengthscale[..., d_x:]

        def cross() -> Iterator[Tensor]:
            for chunk in Z.split(chunk_size(Z, X.shape[-2]), dim=-2):
                yield kernel.correlation(squared_distance(chunk, X[..., d_x:]))

        basis = row_basis(cross())
        if Z.shape[:-1].numel() * basis.shape[-2] > _MAX_COORDINATES:
            return None
        coordinates = torch.cat([chunk @ basis.mT for chunk in cross()], dim=-2)
        centre, lengthscale = centre[..., :d_x], lengthscale[..., :d_x]
        transform: Any = self.belief.model._modules.get("input_transform")
        is_scaled = transform is None or scales_columns(transform)
        if transform is not None and is_scaled:
            # The columns of x alone: pairs with a w, which are cut off again, cost 8 % of a whole
            # loop of V-UCB.
            offset, scale = (
                part[..., :d_x].to(X) for part in (transform.offset, transform.coefficient)
            )
            centre, lengthscale = offset + scale * centre, scale * lengthscale
        return _Factors(
            cache=cache,
            train_X=X[..., :d_x],
            norms=squared_norms(X[..., :d_x]),
            centre=centre,
            lengthscale=lengthscale,
            is_scaled=is_scaled,
            outcome=_Outcome.of(cache.units, self.belief.posterior_transform),
            basis=basis,
            coordinates=coordinates,
            products=_products(coordinates),
            pairs=_places(basis),
        )


class _Picked(torch.autograd.Function):
    r"""A picked bound, with its gradient from the correlations of the moments."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, width: Tensor, pick: Pick, factors: _Factors) -> Tensor:
        cache, outcome = factors.cache, factors.outcome
        Z = (X - factors.centre) / factors.lengthscale
        k_x = ProductMarginals._correlation(Z, factors)
        mean, variance = ProductMarginals._moments(k_x, factors, X.dtype)
        value, index = pick(torch.addcmul(mean, width, variance.sqrt()))
        index = index.unsqueeze(-1)
        k_w = _rows(factors.coordinates, index) @ factors.basis  # batch_shape x m x n
        k, variance = k_x * k_w, variance.gather(-1, index)
        # 0 of a variance that was clamped, as autograd has it.
        share = (outcome.prior * width).div(variance.sqrt())
        share.masked_fill_(variance <= factors.least_variance(X.dtype), 0.0)
        pull = (k @ cache.factor.mT) @ cache.factor
        sensitivity = torch.addcmul(cache.weights * outcome.scale, share, pull, value=-1).mul_(k)
        gradient = pull_back(sensitivity, Z, factors.train_X).div_(factors.lengthscale)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (gradient,) = ctx.saved_tensors
        return grad.unsqueeze(-1) * gradient, None, None, None


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

    They turn a quadratic form into one matrix product with the upper triangle of its matrix.
    """
    rank = coordinates.shape[-1]
    if coordinates.shape[:-1].numel() * rank * (rank + 1) // 2 > _MAX_PRODUCTS:
        return None
    rows, columns = torch.triu_indices(rank, rank, device=coordinates.device)
    doubled = coordinates[..., columns] * torch.where(rows == columns, 1.0, 2.0).to(coordinates)
    return coordinates[..., rows] * doubled


def _rows(matrix: Tensor, index: Tensor) -> Tensor:
    r"""Rows of `... x n_w x r`, where `...` broadcasts, at indices `batch_shape x m x 1`."""
    shape = *index.shape[:-1], matrix.shape[-1]
    matrix = matrix.expand(*index.shape[:-2], *matrix.shape[-2:])
    return matrix.gather(-2, index.expand(shape))


def _places(basis: Tensor) -> Tensor:
    r"""The indices of the upper triangle of an `r x r` matrix, row by row."""
    rank = basis.shape[-2]
    rows, columns = torch.triu_indices(rank, rank, device=basis.device)
    return rows * rank + columns


def _pairs(X: Tensor, points: Tensor) -> Tensor:
    batch = joint_shape(X.shape[:-2], points.shape[:-2])
    shape = (*batch, X.shape[-2], points.shape[-2])
    X = X.unsqueeze(-2).expand(*shape, X.shape[-1])
    points = moved(points, X).unsqueeze(-3).expand(*shape, points.shape[-1])
    return torch.cat([X, points], dim=-1)
