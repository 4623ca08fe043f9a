r"""The joint posterior of a GP over a finite domain, updated by observations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.arguments import check_flags, first_wrong
from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.posterior import domain_arguments as arguments
from botorch_risk.engine.posterior.belief import Belief
from botorch_risk.engine.posterior.cache import PosteriorCache
from botorch_risk.engine.posterior.covariance import (
    CovarianceBlocks,
    DenseCovariance,
    HeldBlocks,
    MadeBlocks,
)
from botorch_risk.engine.posterior.process import PriorProcess, Process
from botorch_risk.engine.posterior.reductions import (
    Candidates,
    Targets,
    map_rows,
    reductions_on_domain,
)
from botorch_risk.points import checked_points

# Entries of the rows of the domain that observations add at once.
_NEW_ROWS = ChunkSize(cpu=2**22)
# A variance below this many units of rounding of the prior variance is 0 up to rounding.
_RESOLUTION = 64


class DomainPosterior:
    r"""Posterior mean, variance and covariance of an exact GP over a finite domain.

    It serves a `SingleTaskGP` with one output, or a subclass that keeps its `forward` and
    `posterior` (inferred or fixed noise, any kernel and mean, input transforms that keep the number
    of points, linear outcome transforms), of batch shape `[]` or `[R]`. With `L` the Cholesky
    factor of `K + S` over all observations so far:

        mean = m + V' z,  variance = k - diag(V' V),  covariance = K_D - V' V
        V = L^-1 k(X, D),  z = L^-1 (y - m(X))

    These are Eqs. (1), (2) and (20) of [Bogunovic2016truvar]_.

    An observation appends one row to `V`, as in a growing Cholesky factor: the result equals a
    refit up to rounding. Several observations at once append one block of rows. Each observation
    changes the dense covariance by rank one; the matrix is recomputed when rounding grows. With
    `dense=False` the object stores `t x |D|` numbers for t observations, no `|D| x |D|` matrix, and
    computes rows of the covariance when they are needed.

    The posterior starts from the prior and the data of the model; `observe` adds observations. If
    the hyperparameters of the model change, everything is rebuilt and the observations are kept. If
    the model gets other data, make a new object. All moments are in the units of the outcome,
    without gradients except in `at`. Variances go down to 0: GPyTorch's floor of 1e-10 and its
    minimum noise apply only to the data of the model.

    Args:
        model: An exact GP with one output.
        domain: `|D| x d` points, shared by the replicates, or `R x |D| x d`.
        dense: Whether to hold the `|D| x |D|` covariance, of each replicate.
        posterior_transform: A scalarization of the single output (BoTorch's sign).
        max_bytes: The maximum memory that the dense covariance may use. A copy, as in the greedy
            choice of a batch, needs as much again.
        observed: A boolean mask of the rows of the model's data that are samples,
            `batch_shape x n`; all by default. Other rows do not enter `num_samples` and the range.

    Warns:
        UserInputWarning: If the dense covariance uses more than a quarter of `max_bytes`.

    Raises:
        UnsupportedError: If the model has no closed form, or `max_bytes` is too small.

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

    Candidates: TypeAlias = Candidates
    Targets: TypeAlias = Targets
    check_domain = staticmethod(arguments.check_domain)
    check_model = staticmethod(arguments.check_model)
    check_noise = staticmethod(arguments.check_noise)

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
        check_flags(dense=dense)
        arguments.check_model(model, posterior_transform)
        self.model: Any = model
        self.batch_shape: torch.Size = self.model.batch_shape
        self.domain = arguments.checked_domain(domain, model)
        self._observed = arguments.check_observed(observed, self.model)
        self.dense = dense
        self._B: int = self.batch_shape.numel()
        if dense:
            arguments.guard_memory(self._B, self.domain, max_bytes)
        self.units = arguments.Units.of(posterior_transform)
        self._predictor = Belief(model, posterior_transform)
        self._observations: list[Observations] = []
        self._build()

    @property
    def mean(self) -> Tensor:
        r"""Posterior means, `batch_shape x |D|`."""
        return self._current().points.mean.reshape(*self.batch_shape, -1)

    @property
    def variance(self) -> Tensor:
        r"""Posterior variances, `batch_shape x |D|`."""
        # Eqs. (2) and (19)
        return self._current().points.variance.reshape(*self.batch_shape, -1)

    @property
    def prior_variance(self) -> Tensor:
        r"""The largest prior variance over the domain, `batch_shape`."""
        return self._current().prior_variance.reshape(self.batch_shape)

    @property
    def resolution(self) -> Tensor:
        r"""The variance below which all is rounding, `batch_shape`."""
        return _RESOLUTION * self.prior_variance * torch.finfo(self.domain.dtype).eps

    @property
    def num_samples(self) -> Tensor:
        r"""The number of samples, the data of the model included, `batch_shape`."""
        return self._state.count.reshape(self.batch_shape).clone()

    @property
    def outcome_range(self) -> tuple[Tensor, Tensor]:
        r"""The smallest and the largest outcome so far, `batch_shape` each."""
        low, high = (end.reshape(self.batch_shape) for end in (self._state.low, self._state.high))
        return low.clone(), high.clone()

    @property
    def covariance(self) -> Tensor:
        r"""The posterior covariance, `batch_shape x |D| x |D|`."""
        matrix = self.covariance_between()(*3 * (slice(None),))
        return matrix.reshape(*self.batch_shape, *matrix.shape[-2:])

    def reductions(self, candidates: Candidates, inverse: Tensor, targets: Targets) -> Tensor:
        r"""Weighted reductions of variances by samples at points of the domain.

            sum_j w_j min(cap_j, cov(x, x_j)^2 / variance of the outcome at x)

        `inverse`, `B x m x K`, is one over the variance of the outcome at each noise level. The
        result, `B x m x K`, has no gradients; it is computed in tiles that stay in a core's cache.
        """
        return reductions_on_domain(self, candidates, inverse, targets)

    def map_rows(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        candidates: Candidates,
        inverse: Tensor,
        targets: Targets,
    ) -> Tensor:
        r"""Apply a function of `B x c x a` covariances and `B x c x K` inverses, chunk by chunk."""
        return map_rows(function, self, candidates, inverse, targets)

    def covariance_between(
        self, rows: Tensor | None = None, columns: Tensor | None = None
    ) -> CovarianceBlocks:
        r"""Lazily evaluated blocks of the posterior covariance between points of the domain.

        `rows` and `columns` are `B x m` and `B x a` indices, for the `B` replicates (1 if the batch
        shape is []); `None` for the whole domain in order.
        """
        return self._current().blocks(rows, columns)

    def points(self, index: Tensor) -> Process.Points:
        r"""The posterior at points of the domain, from `B x a` indices."""
        return self._current().points.take(index)

    def at(self, X: Tensor) -> Process.Points:
        r"""The posterior at any points `m x d` or `B x m x d`, differentiable in them."""
        return self._current().process.at(checked_points(X, self.model))

    def cross_covariance(self, first: Process.Points, second: Process.Points) -> Tensor:
        r"""Posterior covariances of any points, `B x m x a`, differentiable in the first."""
        return self._state.process.covariance(first, second)

    def inferred_noise(self, X: Tensor | None = None) -> Tensor | None:
        r"""The model's noise variance, `B x m`, over the domain by default; `None` if fixed."""
        prior = self._current().process.prior
        return prior.inferred_noise(self.domain if X is None else X)

    def observe(
        self, index: int | Tensor, y: float | Tensor | None, noise: float | Tensor | None = None
    ) -> None:
        r"""Condition on an outcome at a point of the domain, in every replicate.

        Args:
            index: The index of the point, one for all or `batch_shape`.
            y: The outcome in the units of the data, before a `posterior_transform`, one for all or
                `batch_shape`; NaN where a replicate observed nothing. `None` hallucinates the
                posterior mean: the mean is unchanged and the variance shrinks.
            noise: The noise variance >= 0, squared units of `y`; the inferred one if `None`.

        Raises:
            InputDataError: If the noise is below 1e-4 of the prior variance in float32.
            ValueError: If the noise is missing and the model's is fixed.
        """
        rows = arguments.checked_index(index, self._B, self.domain)
        domain = self.domain.expand(self._B, *self.domain.shape[-2:])
        X = domain[torch.arange(self._B, device=rows.device), rows].unsqueeze(-2)
        self._record(X, *self.units.apply(y, noise, self.domain), rows.unsqueeze(-1))

    def observe_at(
        self, X: Tensor, y: float | Tensor | None, noise: float | Tensor | None = None
    ) -> None:
        r"""Condition on an outcome at a point on or off the domain, otherwise as `observe`.

        The point is `d` for all, `batch_shape x d` or `batch_shape x 1 x d`.
        """
        point = arguments.checked_point(X, self.batch_shape, self.domain)
        self._record(point, *self.units.apply(y, noise, self.domain))

    def observe_all(
        self, X: Tensor, y: Tensor, noise: Tensor | None = None, index: Tensor | None = None
    ) -> None:
        r"""Condition on several outcomes at once, as `observe_at` does on one after another.

        Args:
            X: The points, `batch_shape x b x d`.
            y: `batch_shape x b` outcomes, NaN where missing, in the units of the data.
            noise: As many noise variances >= 0, squared units of `y`; the inferred ones if `None`.
            index: As many rows of the points in the domain, -1 off it; all off it by default.
        """
        points = arguments.checked_points_of_each(X, self.batch_shape, self.domain)
        shape = (*self.batch_shape, points.shape[-2])
        for name, each in (("y", y), ("noise", noise), ("index", index)):
            if each is not None and each.shape != shape:
                raise BotorchTensorDimensionError(
                    f"Expected `{name}` for each of the points, {shape}. Got {tuple(each.shape)}."
                )
        index = None if index is None else index.reshape(self._B, -1)
        self._record(points, *self.units.apply(y, noise, self.domain), index)

    def hallucinate(
        self, X: Tensor, noise: Tensor, index: Tensor | None = None, within: Tensor | None = None
    ) -> None:
        r"""Condition on the posterior mean at a point, which shrinks the variance only.

        The greedy choice of a batch uses it.

        Args:
            X: As in `observe_at`.
            noise: `batch_shape` noise variances >= 0, squared units of `mean` and not of the data.
            index: `batch_shape` rows of the points in the domain, if they are on it.
            within: `batch_shape` booleans: the replicates that get a sample; all by default.
        """
        point = arguments.checked_point(X, self.batch_shape, self.domain)
        y = self.at(point).mean.detach().reshape(self._B)
        if within is not None:
            y = y.where(within.reshape(self._B), torch.nan)
        self._record(point, y, noise, None if index is None else index.reshape(self._B, 1))

    def copy(self) -> DomainPosterior:
        twin = copy.copy(self)
        twin._observations, twin._state = list(self._observations), self._state.copy()
        return twin

    def _record(
        self,
        X: Tensor,
        y: float | Tensor | None,
        noise: float | Tensor | None,
        index: Tensor | None = None,
    ) -> None:
        state = self._current()
        noise = state.process.prior.inferred_noise(X) if noise is None else noise
        if noise is None:
            raise ValueError("Expected `noise`, as the noise of the model is fixed. Got None.")
        shape = self._B, X.shape[-2]
        variance = arguments.of_each("noise", noise, shape, self.domain)
        arguments.check_noise(variance, state.prior_variance)
        outcome = state.process.at(X).mean if y is None else y
        outcome = arguments.of_each("y", outcome, shape, self.domain)
        if (infinite := outcome.isinf()).any():
            wrong = first_wrong(outcome, ~infinite)
            raise InputDataError(f"Expected finite `y`, NaN where missing. Got {wrong}.")
        if index is None:  # off the domain
            index = torch.full(shape, -1, device=self.domain.device)
        self._observations.append(Observations(X, outcome, variance, index))
        state.condition(self._observations[-1])

    def _build(self) -> None:
        self._targets = self.model.train_targets.clone()
        prior = PriorProcess(self.model, self._predictor, PosteriorCache.build(self.model))
        observed = self._observed.reshape(self._B, -1)
        self._state = ConditionedDomain.of(prior, self.domain, observed, self.dense)
        if self._observations:  # as one block, which costs less than one after the other
            self._observations = [Observations.joined(self._observations)]
            self._state.condition(self._observations[0])

    def _current(self) -> ConditionedDomain:
        if not self._state.process.prior.cache.state.is_current():
            now, then = self.model.train_targets, self._targets
            if (now.dtype, now.device) != (then.dtype, then.device):
                raise InputDataError(
                    f"Expected the model to stay in {then.dtype} on {then.device}: build a new "
                    f"DomainPosterior for another. Got {now.dtype} on {now.device}."
                )
            if not torch.equal(now, then):
                raise InputDataError(
                    "Expected a model with the same data: build a new DomainPosterior for other "
                    f"data. Got outcomes of shape {tuple(now.shape)} after {tuple(then.shape)}."
                )
            self._build()
        return self._state


class Observations(NamedTuple):
    r"""The outcomes of `B` replicates at `b` points each."""

    X: Tensor  # B x b x d points in the units of the model's inputs
    y: Tensor  # B x b outcomes, NaN if missing
    noise: Tensor  # B x b noise variances
    row: Tensor  # B x b rows of the points in the domain, -1 off the domain

    @classmethod
    def joined(cls, parts: Sequence[Observations]) -> Observations:
        return cls(*(torch.cat(each, dim=1) for each in zip(*parts, strict=True)))

    def split(self, size: int) -> list[Observations]:
        parts = zip(*(each.split(size, dim=1) for each in self), strict=True)
        return [Observations(*part) for part in parts]


@dataclass
class ConditionedDomain:
    r"""The posterior over the points of a domain, for `B` replicates."""

    process: Process
    points: Process.Points
    # The dense covariance of the domain, or `None` if blocks are made on demand.
    covariance: DenseCovariance | None
    count: Tensor  # B numbers of samples
    low: Tensor  # B smallest outcomes
    high: Tensor  # B largest outcomes
    prior_variance: Tensor  # B largest prior variances over the domain

    @classmethod
    @torch.no_grad()
    def of(
        cls, prior: PriorProcess, domain: Tensor, observed: Tensor, dense: bool
    ) -> ConditionedDomain:
        r"""The posterior of the data of a model; `observed`, `B x n`, marks its samples."""
        process = Process.of(prior)
        points, outcomes = process.at(domain), prior.outcomes()
        return cls(
            process=process,
            points=points,
            covariance=DenseCovariance(process, points) if dense else None,
            count=observed.sum(dim=-1),
            low=outcomes.where(observed, torch.inf).amin(dim=-1),
            high=outcomes.where(observed, -torch.inf).amax(dim=-1),
            prior_variance=points.prior.variance.amax(dim=-1),
        )

    @property
    def rounding(self) -> Tensor:
        r"""One unit of rounding of the largest prior variance, `B`."""
        return self.prior_variance * torch.finfo(self.prior_variance.dtype).eps

    def blocks(self, rows: Tensor | None, columns: Tensor | None) -> CovarianceBlocks:
        if self.covariance is not None:
            return HeldBlocks(self.covariance, rows, columns)
        first, second = (self.points if i is None else self.points.take(i) for i in (rows, columns))
        return MadeBlocks(self.process, first, second)

    @torch.no_grad()
    def condition(self, observations: Observations) -> None:
        r"""Add observations by rows of the Cholesky factor, as many at once as memory allows."""
        B, size = self.points.mean.shape
        for block in observations.split(_NEW_ROWS.rows(self.points.mean.device, B * size)):
            # What the domain knows of its points is not computed again.
            is_on_it = bool((block.row >= 0).all())
            points = self.points.take(block.row) if is_on_it else self.process.at(block.X)
            whitening = self._whitening(points, block)
            if whitening is not None:
                self._extend(points, block, whitening)
            else:
                for one in block.split(1):  # each given those before it, which may determine it
                    self.condition(one)
        # A missing outcome, NaN, is neither the lowest nor the highest.
        self.low = torch.fmin(self.low, observations.y.nan_to_num(nan=torch.inf).amin(dim=-1))
        self.high = torch.fmax(self.high, observations.y.nan_to_num(nan=-torch.inf).amax(dim=-1))

    def _whitening(self, points: Process.Points, block: Observations) -> Tensor | None:
        r"""The inverse Cholesky factor of the outcomes' covariance, `B x b x b`.

        Zero in the rows and columns of outcomes that say nothing. An outcome whose variance is
        rounding was known already: dividing by it adds only noise. Which ones these are follows
        from the outcomes before them, so the result is None if there are any, except for a single
        outcome.
        """
        variance, seen = points.variance + block.noise, block.y.isfinite()
        rounding = self.rounding.unsqueeze(-1)
        if variance.shape[-1] == 1:
            return variance.rsqrt().where(seen & (variance > rounding), 0.0).unsqueeze(-1)
        # A row of the identity for a missing outcome, cut out of the inverse at the end.
        both = seen.unsqueeze(-1) & seen.unsqueeze(-2)
        covariance = self.process.covariance(points, points).where(both, 0.0)
        covariance.diagonal(dim1=-2, dim2=-1).copy_(variance.where(seen, 1.0))
        root, info = torch.linalg.cholesky_ex(covariance)
        # The square of a pivot is the variance of an outcome given those before it.
        left = root.diagonal(dim1=-2, dim2=-1).square()
        if bool(info.any() | ((left <= rounding) & seen).any()):
            return None
        identity = torch.diag_embed(torch.ones_like(variance))
        return torch.linalg.solve_triangular(root, identity, upper=False).where(both, 0.0)

    def _extend(self, points: Process.Points, block: Observations, whitening: Tensor) -> None:
        cross = self.process.covariance(points, self.points)  # B x b x |D|
        rows = whitening @ cross
        if self.covariance is not None:
            self.covariance.subtract(self.process, self.points, cross, rows, block.row)
        self.process = self.process.extended(points, block.y, whitening)
        residuals = self.process.residuals[:, -rows.shape[-2] :, None]
        self.points = self.points._replace(
            whitened=torch.cat([self.points.whitened, rows], dim=-2),
            mean=self.points.mean + (rows * residuals).sum(dim=-2),
            # At a point observed without noise the difference is rounding of either sign.
            variance=(self.points.variance - rows.square().sum(dim=-2)).clamp_min(0.0),
        )
        self.count = self.count + block.y.isfinite().sum(dim=-1)

    def copy(self) -> ConditionedDomain:
        twin = copy.copy(self)  # all but the dense covariance is replaced, never written to
        if self.covariance is not None:
            twin.covariance = self.covariance.copy()
        return twin
