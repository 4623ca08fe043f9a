r"""Marginals at all pairs of a decision and an environmental value.

The squared exponential is a product: k((x, w), (x', w')) = k(x, x') k(w, w'). The factor over fixed
values of w is computed once and, being smooth, has a low rank r. A new decision then costs
`n^2 r + n_w r^2` operations instead of `n_w n^2`. Values of w are processed in chunks, so nothing
larger than their coordinates, `n_w x r`, is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.posterior.cache import PosteriorCache
from botorch_risk.engine.posterior.kernels import StationaryKernel, squared_distance, squared_norms
from botorch_risk.engine.posterior.moments import Marginals
from botorch_risk.engine.posterior.pair_bound import Reduction, numpy_form, reduced_bounds
from botorch_risk.engine.posterior.pair_bound_on_host import ReductionOnHost
from botorch_risk.engine.posterior.pair_samples import PairSamples
from botorch_risk.engine.posterior.product_factors import Outcome, ProductFactors
from botorch_risk.engine.posterior.row_basis import row_basis
from botorch_risk.engine.posterior.stationary_moments import chunk_size
from botorch_risk.engine.posterior.sums_on_host import SumsOverW
from botorch_risk.points import TBatch, joint_shape, keeps_apart, original_inputs, scales_columns
from botorch_risk.steady import are_on_host, moved

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.belief import Belief
    from botorch_risk.engine.posterior.weighted_sums import WeightedSums

# Entries of the coordinates of all values of w, half a gigabyte; more of them go pair by pair.
_MAX_COORDINATES = 2**26
# Entries of the products of their pairs, which are held only up to here.
_MAX_PRODUCTS = 2**24


class ProductMarginals:
    r"""Posterior mean and variance at all (x, w_j) for fixed w_j, differentiable in x.

    For an exact GP in double precision with one output and a squared-exponential kernel, alone or
    in a `ScaleKernel`, without an input transform or with `Normalize`, also after an encoding of
    categories of x. Other models are evaluated by `Belief` at every pair.

    Args:
        belief: The belief of a model with one output, and w in the last columns of its inputs.
        points: `batch_shape x n_w x d_w` values of w, or `n_w x d_w` for a whole batch.
    """

    def __init__(self, belief: Belief, points: Tensor) -> None:
        self.belief, self.points = belief, points
        self._built: tuple[PosteriorCache, ProductFactors | None] | None = None
        self._sums: tuple[WeightedSums, Tensor] | None = None
        self._sums_on_host: SumsOverW | None = None
        self._samples: PairSamples | None = None

    def __getstate__(self) -> dict[str, Any]:
        built = "_built", "_sums", "_sums_on_host", "_samples"
        return self.__dict__ | dict.fromkeys(built)

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
        factors = self._current_factors_at(X)
        if factors is None:
            pairs = _pairs(X, self.points)
            return self.belief.mean(pairs.flatten(-3, -2)).unflatten(-1, pairs.shape[-3:-1])
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            return factors.mean(self._correlation(X, factors))

    def _of_replicates(self, X: Tensor) -> Marginals:
        r"""Moments at points `batch_shape x m x d_x`, in the joint batch shape of model and w."""
        factors = self._current_factors_at(X)
        if factors is None:
            return self._at_every_pair(X)
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            k_x = self._correlation(X, factors)
            variance = factors.variance(factors.whitened(k_x))
            variance = variance.clamp_min(factors.least_variance(X.dtype))
            return Marginals(factors.mean(k_x), variance)

    def serves(self, X: Tensor) -> bool:
        r"""Whether `reduced` has closed forms for decisions `batch_shape x m x d_x`."""
        return self._current_factors_at(X) is not None

    def reduced(
        self, X: Tensor, reduce: Reduction, width: Tensor | None = None, numbers: Any = None
    ) -> tuple[Tensor, Tensor | None]:
        r"""A number that is made of all values of a decision, and its gradient in the decision.

        The values are bounds `mean + width * deviation`, `batch_shape x m x n_w`, or joint samples,
        `batch_shape x m x S x n_w`. Numbers are `batch_shape x m`, and gradients
        `batch_shape x m x d_x` or None, without a graph.

        Args:
            X: `batch_shape x m x d_x`.
            reduce: Maps the values to one number, `batch_shape x m`, and its derivative in them; or
                the index of the bound that it equals, `batch_shape x m`; or None if no gradient is
                needed.
            width: Broadcastable to `batch_shape x m`; below 0 for lower bounds.
            numbers: Standard normal numbers `S x n_w` for samples, of which as many columns are
                used as needed.
        """
        factors: Any = self._current_factors_at(X)
        if width is None:
            sampler = self._sampler(factors)
            return self._through_transform(
                X, factors, lambda X: sampler.reduced(X, numbers, reduce)
            )
        each = width.unsqueeze(-1)
        return self._through_transform(
            X, factors, lambda X: reduced_bounds(X, each, reduce, factors)
        )

    def on_host(
        self, num_decisions: int, reduce: ReductionOnHost, width: Tensor
    ) -> Callable[[ndarray], tuple[ndarray, ndarray]] | None:
        r"""`reduced` of bounds as a NumPy function of few decisions, with all else computed once.

        `num_decisions` is the largest number in each entry of the batch. The function maps
        decisions `batch_shape x m x d_x` to numbers and gradients; None if there is no closed form,
        an input transform does more than scale, or PyTorch is faster.
        """
        if not self.belief.closed_form:
            return None
        known = original_inputs(self.belief.model)[..., :1, : -self.points.shape[-1]]
        factors = self._current_factors_at(known)
        if factors is None or not factors.is_scaled:
            return None
        return numpy_form(num_decisions, reduce, width.unsqueeze(-1), factors)

    def _through_transform(
        self,
        X: Tensor,
        factors: ProductFactors,
        of_kernel: Callable[[Tensor], tuple[Tensor, Tensor | None]],
    ) -> tuple[Tensor, Tensor | None]:
        r"""Values and gradients in decisions, from those in the units of `factors.scaled`."""
        if factors.is_scaled:
            return of_kernel(X.detach())
        # A graph of the transform alone, behind which the gradient is in closed form.
        with torch.enable_grad():
            X = X.detach().requires_grad_()
            inner = self._of_kernel(X, factors)
            value, gradient = of_kernel(inner.detach())
            if gradient is not None:
                (gradient,) = torch.autograd.grad(inner, X, gradient)
        return value, gradient

    def _sampler(self, factors: ProductFactors) -> PairSamples:
        if self._samples is None or self._samples.factors is not factors:
            self._samples = PairSamples.of(factors)
        return self._samples

    def _current_factors_at(self, X: Tensor) -> ProductFactors | None:
        return self._current_factors() if self._is_product(X) else None

    def moments_with(self, sums: WeightedSums, X: Tensor) -> tuple[Tensor, ...] | None:
        r"""Covariances of the outcomes at all (x, w_j) with sums over the same w_j, and variances.

        All are differentiable in the decisions `B x m x d_x`. Returns covariances `B x m x n_w x P`
        divided by the scale of the outcome at each decision, the scales `B x m`, and variances
        `B x m x n_w`; None unless the covariance is a product.
        """
        grad = X.requires_grad and torch.is_grad_enabled()
        if not grad and (host := self.on_host_with(sums, X)) is not None:
            covariance, variance = map(torch.from_numpy, host.moments(X.detach().numpy()))
            return covariance, sums.points.prior.scale[:, :1].expand(X.shape[:-1]), variance
        prior, batch_shape = sums.process.prior, self.belief.model.batch_shape
        decisions, columns = (
            part.reshape(*batch_shape, *part.shape[-2:]) for part in (X, sums.explained)
        )
        factors = self._current_factors_at(decisions)
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

    def on_host_with(self, sums: WeightedSums, X: Tensor) -> SumsOverW | None:
        r"""`SumsOverW` for few decisions; None if PyTorch is faster or the kernel is no product."""
        if not (are_on_host(X) and sums.process.prior.has_shared_units):
            return None
        decisions = X.reshape(*self.belief.model.batch_shape, *X.shape[-2:])
        factors = self._current_factors_at(decisions)
        if factors is None or not factors.is_scaled:
            return None
        host = self._sums_on_host
        if host is None or host.sums is not sums or host.factors is not factors:
            of_sums, (n_w, d_w) = sums.points.prior, self.points.shape[-2:]
            inputs = of_sums.inputs.expand(*of_sums.scale.shape, -1)[:, ::n_w, :-d_w]
            host = self._sums_on_host = SumsOverW.of(sums, factors, self._of_sums(sums), inputs)
        return host if host.serves(X.shape[-2]) else None

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
        self, X: Tensor, columns: Tensor, factors: ProductFactors
    ) -> tuple[Tensor, Tensor]:
        r"""The parts of variances and covariances that the data explain, per prior variance.

        `batch_shape x m x n_w` and `batch_shape x m x n_w x P`, of `batch_shape x m x d_x`
        decisions and whitened correlations `batch_shape x n x P`.
        """
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            G = factors.whitened(self._correlation(X, factors))
            variance = factors.quadratic_forms(G.mT @ G)
            covariance = factors.coordinates.unsqueeze(-3) @ (G.mT @ columns.unsqueeze(-3))
            return variance, covariance

    def _correlation(self, X: Tensor, factors: ProductFactors) -> Tensor:
        r"""The correlations of decisions `batch_shape x m x d_x` with the training data."""
        return factors.correlation(factors.scaled(self._of_kernel(X, factors)))

    def _of_kernel(self, X: Tensor, factors: ProductFactors) -> Tensor:
        r"""Decisions in the units in which `factors.scaled` takes them."""
        if factors.is_scaled:
            return X
        W = moved(self.points, X)[..., :1, :].expand(*X.shape[:-2], 1, self.points.shape[-1])
        return self._transformed(X, W)[..., : -W.shape[-1]]

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
            and X.shape[:-2] == model.batch_shape  # W may have a larger batch than the model
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

    def _current_factors(self) -> ProductFactors | None:
        cache = self.belief.current_cache()
        if self._built is None or self._built[0] is not cache:
            with torch.no_grad():
                self._built = cache, self._build(cache)
        return self._built[1]

    def _build(self, cache: PosteriorCache) -> ProductFactors | None:
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

        # Made twice, for the basis and for the coordinates, so that nothing of `n_w x n` is held.
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
        return ProductFactors(
            cache=cache,
            train_X=X[..., :d_x],
            norms=squared_norms(X[..., :d_x]),
            points=Z,
            centre=centre,
            lengthscale=lengthscale,
            is_scaled=is_scaled,
            outcome=Outcome.of(cache.units, self.belief.posterior_transform),
            basis=basis,
            coordinates=coordinates,
            products=_products(coordinates),
            pairs=_places(basis),
        )


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
