r"""The joint posterior of a GP over a finite domain, updated one observation at a time."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import InputDataError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.posterior.cache import PosteriorCache
from botorch_risk.posterior.covariance import (
    CovarianceBlocks,
    DenseCovariance,
    HeldBlocks,
    MadeBlocks,
)
from botorch_risk.posterior.domain_arguments import (
    Units,
    check_domain,
    check_model,
    check_noise,
    check_observed,
    checked_index,
    checked_point,
    guard_memory,
    per_replicate,
)
from botorch_risk.posterior.inputs import as_points, check_points
from botorch_risk.posterior.marginals import MarginalPredictor
from botorch_risk.posterior.process import ConditionedPoints, ConditionedProcess, PriorProcess

# A variance below this many units of rounding of the prior variance cannot be told from 0.
_RESOLUTION = 64


class _Observation(NamedTuple):
    X: Tensor  # B x 1 x d
    y: Tensor  # B, NaN where there is none
    noise: Tensor  # B
    row: Tensor  # B, -1 off the domain


class DomainPosterior:
    r"""Posterior mean, variance and covariance of an exact GP over a finite domain.

    For an exact GP with one output (inferred or fixed noise, any kernel and mean, input
    transforms that keep the number of points, linear outcome transforms), of batch shape `[]`
    or `[R]`. With `L` the Cholesky factor of `K + S` over all observations so far:

        mean = m + V' z,  variance = k - diag(V' V),  covariance = K_D - V' V
        V = L^-1 k(X, D),  z = L^-1 (y - m(X))                          Eqs. (1), (2), (20)

    An observation appends one row to `V`, as a Cholesky factorisation extends itself: the
    result is that of a refit, exact to the same rounding. The dense covariance is a running
    difference. Each observation compares its column with the one that the factor gives, and the
    matrix is computed anew from the factor when they differ by more than `1e4` units of
    rounding of the prior variance. `dense=False` holds no `|D| x |D|` matrix
    and makes rows from the factor on demand: `t x |D|` numbers instead.

    The model is the prior and its data; what is observed here is added to them. When the
    hyperparameters of the model change, everything is built anew with the observations kept;
    a model that is given other data needs a new object. All moments are in the units of the
    outcome, without gradients except in `at`. Variances go down to 0: GPyTorch's floor of
    1e-10 and its lifting of small noise apply to the data of the model only, not to `observe`.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> X = domain[[5, 30]]
        >>> model = SingleTaskGP(X, (6 * X).sin(), torch.full_like(X, 1e-4))
        >>> posterior = DomainPosterior(model, domain)
        >>> before = posterior.variance.max()
        >>> posterior.observe(index=49, y=-0.3, noise=1e-4)
        >>> bool(posterior.variance.max() < before), posterior.num_samples
        (True, tensor(3))
    """

    def __init__(
        self,
        model: Model,
        domain: Tensor,
        *,
        dense: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        max_bytes: int = 2**32,
        observed: Tensor | None = None,
    ) -> None:
        r"""Builds the posterior of the model's data.

        Args:
            model: An exact GP with one output.
            domain: `|D| x d` points, shared by the replicates, or `R x |D| x d`.
            dense: Whether to hold the `|D| x |D|` covariance, of each replicate.
            posterior_transform: A scalarization of the one output (BoTorch's sign).
            max_bytes: The most memory that the dense covariance may take.
            observed: A boolean mask of the rows of the model's data that are samples,
                `batch_shape x n`; all by default. Rows that only fill up a replicate's data are
                neither counted nor part of the range of the outcomes.

        Raises:
            BotorchTensorDimensionError: If `domain` or `observed` does not fit the model, or the
                domain is empty.
            InputDataError: If `domain` is not finite.
            UnsupportedError: If the model has no closed form, or the dense covariance does not
                fit in `max_bytes`.
        """
        check_model(model, posterior_transform)
        self.model: Any = model
        self.batch_shape: torch.Size = self.model.batch_shape
        domain = as_points(domain, model)
        check_domain(domain, self.batch_shape)
        check_points("domain", domain, model)
        self.domain = domain.detach()
        self._observed = check_observed(observed, self.model)
        self.dense = dense
        self._B: int = self.batch_shape.numel()
        if dense:
            guard_memory(self._B, self.domain, max_bytes)
        self.units = Units.of(posterior_transform)
        self._predictor = MarginalPredictor(model, posterior_transform)
        self._observations: list[_Observation] = []
        self._build()

    @property
    def mean(self) -> Tensor:
        r"""Posterior means, `batch_shape x |D|`."""
        return self._current().mean.reshape(*self.batch_shape, -1)

    @property
    def variance(self) -> Tensor:
        r"""Posterior variances, `batch_shape x |D|`."""
        return self._current().variance.reshape(*self.batch_shape, -1)

    @property
    def prior_variance(self) -> Tensor:
        r"""The largest prior variance over the domain, `batch_shape`."""
        return self._current().prior.variance.amax(dim=-1).reshape(self.batch_shape)

    @property
    def resolution(self) -> Tensor:
        r"""The variance that cannot be told from 0 by rounding, `batch_shape`."""
        return _RESOLUTION * self.prior_variance * torch.finfo(self.domain.dtype).eps

    @property
    def num_samples(self) -> Tensor:
        r"""The number of samples, the data of the model included, `batch_shape`."""
        return self._count.reshape(self.batch_shape).clone()

    @property
    def outcome_range(self) -> tuple[Tensor, Tensor]:
        r"""The smallest and the largest outcome so far, `batch_shape` each."""
        low, high = (bound.reshape(self.batch_shape).clone() for bound in self._range)
        return low, high

    @property
    def covariance(self) -> Tensor:
        r"""The posterior covariance, `batch_shape x |D| x |D|`; made anew unless dense."""
        every = slice(None)
        matrix = self.covariance_between()(every, every, every)
        return matrix.reshape(*self.batch_shape, *matrix.shape[-2:])

    def covariance_between(
        self, rows: Tensor | None = None, columns: Tensor | None = None
    ) -> CovarianceBlocks:
        r"""The covariance between points of the domain, to be had a block at a time.

        Args:
            rows: `B x m` indices, for the `B` replicates (1 if the batch shape is []); `None`
                for the whole domain in order.
            columns: `B x a` indices, in the same way.

        Returns:
            A function of the slices of replicates, of `m` and of `a`, to a block of covariances:
            a view of the dense covariance where that is possible.
        """
        domain = self._current()
        if self._covariance is not None:
            return HeldBlocks(self._covariance, rows, columns)
        first, second = (domain if i is None else domain.take(i) for i in (rows, columns))
        return MadeBlocks(self._process, first, second)

    def points(self, index: Tensor) -> ConditionedPoints:
        r"""The posterior at points of the domain, from `B x a` indices."""
        return self._current().take(index)

    def at(self, X: Tensor) -> ConditionedPoints:
        r"""The posterior at any points, differentiable in them.

        Args:
            X: `m x d`, or `B x m x d` for the `B` replicates.

        Raises:
            BotorchTensorDimensionError: If `X` does not have the columns of the model's inputs.
        """
        check_points("X", X, self.model)
        self._current()
        return self._process.at(as_points(X, self.model))

    def cross_covariance(self, first: ConditionedPoints, second: ConditionedPoints) -> Tensor:
        r"""Posterior covariances of any points, `B x m x a`, differentiable in the first."""
        return self._process.covariance(first, second)

    def inferred_noise(self, X: Tensor | None = None) -> Tensor | None:
        r"""The model's noise variance, `B x m`, over the domain by default; `None` if fixed."""
        self._current()
        return self._process.process.inferred_noise(self.domain if X is None else X)

    def observe(
        self,
        index: int | Tensor,
        y: float | Tensor | None,
        noise: float | Tensor | None = None,
    ) -> None:
        r"""Conditions on an outcome at a point of the domain, in every replicate.

        Args:
            index: Which point, one for all or `batch_shape`.
            y: The outcome in the units of the data, before a `posterior_transform`, one for all or
                `batch_shape`; NaN where a replicate observed nothing. `None` hallucinates the
                posterior mean: the mean stays, the variance shrinks.
            noise: Its noise variance >= 0, squared units of `y`, taken as it is; the inferred one
                if `None`. Without noise, a second look at a point changes nothing.

        Raises:
            InputDataError: If `index` is no integer or outside the domain, or float32 meets a
                noise below 1e-4 of the prior variance.
            ValueError: If the noise is missing, negative or not finite.
        """
        place = checked_index(index, self._B, self.domain)
        domain = self.domain.expand(self._B, *self.domain.shape[-2:])
        X = domain[torch.arange(self._B, device=place.device), place].unsqueeze(-2)
        self._record(X, *self.units.apply(y, noise, self.domain), place)

    def observe_at(
        self, X: Tensor, y: float | Tensor | None, noise: float | Tensor | None = None
    ) -> None:
        r"""Conditions on an outcome at a point on or off the domain.

        Args:
            X: The point, `d` for all, `batch_shape x d`, or `batch_shape x 1 x d` as a selection
                of one point has it.
            y: As in `observe`.
            noise: As in `observe`.

        Raises:
            BotorchTensorDimensionError: If `X` is not one point of the domain's columns.
            InputDataError: If `X` is not finite, or float32 meets too small a noise.
            ValueError: If the noise is missing, negative or not finite.
        """
        point = checked_point(X, self.batch_shape, self.domain)
        nowhere = torch.full((self._B,), -1, device=self.domain.device)
        self._record(point, *self.units.apply(y, noise, self.domain), nowhere)

    def hallucinate(
        self,
        X: Tensor,
        noise: Tensor,
        index: Tensor | None = None,
        within: Tensor | None = None,
    ) -> None:
        r"""Conditions on the posterior mean at a point: the mean stays, the variance shrinks.

        What greedy choices of a batch ask for. `observe(index, None)` takes the noise in the
        units of the data, this method in the units of `variance`.

        Args:
            X: The point, `d` for all, `batch_shape x d` or `batch_shape x 1 x d`.
            noise: `batch_shape` noise variances >= 0, squared units of `mean`.
            index: `batch_shape` rows of the points in the domain, if they are on it.
            within: `batch_shape` booleans: which replicates take a sample; all by default.

        Raises:
            BotorchTensorDimensionError, InputDataError, ValueError: As for `observe_at`.
        """
        point = checked_point(X, self.batch_shape, self.domain)
        y = self.at(point).mean.detach().reshape(self._B)
        if within is not None:
            y = y.where(within.reshape(self._B), torch.nan)
        nowhere = torch.full((self._B,), -1, device=self.domain.device)
        self._record(point, y, noise, nowhere if index is None else index.reshape(self._B))

    def copy(self) -> DomainPosterior:
        r"""An independent posterior of the same model, for observations on trial."""
        twin = copy.copy(self)
        twin._observations = list(self._observations)
        if self._covariance is not None:
            twin._covariance = self._covariance.copy()
        return twin

    def _record(
        self, X: Tensor, y: float | Tensor | None, noise: float | Tensor | None, index: Tensor
    ) -> None:
        r"""Checks an observation in the units of this posterior, then conditions on it."""
        self._current()
        noise = self._process.process.inferred_noise(X) if noise is None else noise
        if noise is None:
            raise ValueError("Expected `noise`, as the noise of the model is fixed. Got None.")
        variance = per_replicate("noise", noise, self._B, self.domain)
        check_noise(variance, self.prior_variance)
        outcome = self._process.at(X).mean if y is None else y
        outcome = per_replicate("y", outcome, self._B, self.domain)
        if outcome.isinf().any():
            raise InputDataError(f"Expected finite `y`, NaN where missing. Got {y}.")
        self._observations.append(_Observation(X, outcome, variance, index))
        self._condition(self._observations[-1])

    def _build(self) -> None:
        r"""The posterior of the model as it is now, with all observations."""
        cache = PosteriorCache.build(self.model)
        self._targets = self.model.train_targets.clone()
        with torch.no_grad():
            process = PriorProcess(self.model, self._predictor, cache)
            self._process = ConditionedProcess.of(process)
            self._domain = self._process.at(self.domain)
            outcomes, observed = process.outcomes(), self._observed.reshape(self._B, -1)
            self._range = (
                outcomes.where(observed, torch.inf).amin(dim=-1),
                outcomes.where(observed, -torch.inf).amax(dim=-1),
            )
            self._count = observed.sum(dim=-1)
            dense = DenseCovariance(self._process, self._domain) if self.dense else None
            self._covariance = dense
        for observation in self._observations:
            self._condition(observation)

    @torch.no_grad()
    def _condition(self, told: _Observation) -> None:
        r"""The rank-one update."""
        point = self._process.at(told.X)
        variance = point.variance.squeeze(-1) + told.noise  # B
        known = told.y.isfinite() & (variance > self.resolution.reshape(-1) / _RESOLUTION)
        root = variance.rsqrt().where(known, 0.0)
        column = self._process.covariance(point, self._domain).squeeze(-2)  # B x |D|
        row = column * root.unsqueeze(-1)
        if self._covariance is not None:
            self._covariance.subtract(self._process, self._domain, column, root, told.row)
        self._process = self._process.extended(point, told.y, root)
        self._domain = self._domain._replace(
            whitened=torch.cat([self._domain.whitened, row.unsqueeze(-2)], dim=-2),
            mean=self._domain.mean + row * self._process.residuals[..., -1:],
            variance=(self._domain.variance - row.square()).clamp_min(0.0),
        )
        self._count = self._count + told.y.isfinite()
        low, high = self._range
        self._range = torch.fmin(low, told.y), torch.fmax(high, told.y)

    def _current(self) -> ConditionedPoints:
        r"""The domain, built anew if the hyperparameters have changed."""
        if not self._process.process.cache.state.is_current():
            targets = self.model.train_targets
            if not torch.equal(targets, self._targets):
                raise InputDataError(
                    "Expected the model to keep its data: build a new DomainPosterior for others. "
                    f"Got {targets.shape=} after {self._targets.shape=}."
                )
            self._build()
        return self._domain
