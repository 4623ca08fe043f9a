r"""Truncated variance reduction: optimisation and level sets, costs, the choice of the noise.

.. [Bogunovic2016truvar]
    I. Bogunovic, J. Scarlett, A. Krause, V. Cevher. Truncated Variance Reduction: A Unified
    Approach to Bayesian Optimization and Level-Set Estimation. Advances in Neural Information
    Processing Systems 29, 2016.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, evaluate_in_chunks
from botorch_risk.acquisition.sampling_terms import Cost, Noise, NoiseLevels, SamplingTerms
from botorch_risk.acquisition.truncated_gain import (
    Targets,
    anticipated_gain,
    gain,
    gain_on_domain,
    map_rows,
    padded_index,
)
from botorch_risk.acquisition.truncated_variance_state import TruncatedVarianceState
from botorch_risk.models.domain import DomainPosterior

# Covariances with points off the domain that are held at once, with their gradients.
_CHUNK_ENTRIES = {"cpu": 2**18, "cuda": 2**24}
# Values that differ by less than this fraction are ties.
_TIE = 1e-9


class Selection(NamedTuple):
    r"""Points of the domain to sample next.

    Attributes:
        X: `batch_shape x q x d`, with the noise level in the last column if there is a choice.
            NaN where a batch has ended.
        index: `batch_shape x q` places in the domain; -1 where a batch has ended.
        level: `batch_shape x q` noise levels, from 0.
        value: `batch_shape x q` gains per cost; 0 where a batch has ended.
    """

    X: Tensor
    index: Tensor
    level: Tensor
    value: Tensor


class TruncatedVarianceReduction(PointwiseAcquisitionFunction):
    r"""How much a sample shrinks the truncated variances of the points that matter, per cost.

        score(x) = sum_{x' in M} w(x') beta min(max(s^2(x') - eta^2 / beta, 0), D_x(x')) / c(x)
        D_x(x') = cov(x', x)^2 / (s^2(x) + noise(x))

    This is Eq. (3) of TRUVAR [Bogunovic2016truvar]_ with the look-ahead of Eqs. (18) to (20), in
    a form without cancellation: equal, and points below the target drop out. (The text truncates
    at `eta`, Eq. (3) at its square, which is meant.) The set M, `beta` and `eta` are those of
    the state; `eta = 0` is pure variance reduction. Known noise may vary over the domain.

    `evaluate_domain` and `select` work on the grid; `evaluate` and `forward` also off it, with
    gradients, while M stays on the grid, whose points may be weighted as representers of a
    continuous domain. Single-outcome; `forward` has q = 1: use `sequential=True`, or
    `select(q)` for the greedy covering of a batch.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 60, dtype=torch.double).unsqueeze(-1)
        >>> X = domain[[4, 18, 33]]
        >>> model = SingleTaskGP(X, (6 * X).sin(), torch.full_like(X, 1e-4))
        >>> posterior = DomainPosterior(model, domain)
        >>> state = TruncatedVarianceState.initial(domain, "maximize").update(posterior)
        >>> acqf = TruncatedVarianceReduction(posterior, state, noise=1e-4)
        >>> acqf.evaluate_domain().shape, acqf.select().X.shape
        (torch.Size([60]), torch.Size([1, 1]))
    """

    _q_twin = "`select(q)` on the domain"

    def __init__(
        self,
        posterior: DomainPosterior,
        state: TruncatedVarianceState,
        cost: Cost | None = None,
        *,
        noise: Noise | None = None,
        levels: NoiseLevels | None = None,
        candidates: Literal["domain", "unclassified"] | Tensor = "domain",
        weights: Tensor | None = None,
        previous: Tensor | None = None,
        anticipate: bool = False,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            posterior: Over the domain, given all samples so far.
            state: Updated with this posterior.
            cost: What a sample costs; 1, or the cost of its noise level, if `None`.
            noise: The known noise variance, squared units of the outcome: a number, `|D|` values
                or a function of points. The inferred noise of the model if `None`.
            levels: Noise levels to choose from. The level, from 0, is then the last column of
                every `X`, and the last, fastest dimension of the candidates of the domain.
            candidates: Points of the domain that may be sampled: all, those of `M` (Appendix
                A), or a mask `batch_shape x |D|` such as that of `top_candidates`.
            weights: `|D|` weights > 0 of the points in the sum.
            previous: `batch_shape x d`, where the last sample was taken; `None` before the first.
            anticipate: Whether to sum over the M that is expected after the sample (Appendix A).
            X_pending: `batch_shape x n' x d` points under evaluation, with levels if any.

        Raises:
            BotorchTensorDimensionError: If a shape does not fit the domain.
            InputDataError: If the state is that of another domain.
            ValueError: If noise, costs or weights are missing or out of their range.
        """
        super().__init__(model=posterior.model)
        state.check_domain(posterior)
        self.posterior, self.state = posterior, state
        self.terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
        self.terms.domain_noise(posterior)  # checked now
        self.candidates = _candidate_mask(candidates, state)
        self.weights = _checked_weights(weights, posterior)
        self.previous = previous
        self.anticipate = anticipate
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Conditions the variances on points under evaluation; the means stay.

        Args:
            X_pending: `batch_shape x n' x d` points, with levels if any, or `None`.
        """
        super().set_X_pending(X_pending)
        self._conditioned = (self.posterior,)
        if X_pending is not None and X_pending.shape[-2] > 0:
            trial = self.posterior.copy()
            X = self.X_pending.expand(*trial.batch_shape, *X_pending.shape[-2:])
            for point in X.unbind(dim=-2):
                x, level = self._split(point.unsqueeze(-2))
                noise = self._noise(x.reshape(-1, *x.shape[-2:]), level.reshape(-1, 1), trial)
                trial.observe_at(x.squeeze(-2), None, noise.reshape(trial.batch_shape))
            self._conditioned = (trial,)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Gains per cost at any points, differentiable in them.

        Args:
            X: `batch_shape x m x d` points that do not interact; with noise levels
                `batch_shape x m x (d + 1)`.

        Returns:
            `batch_shape x m` values.

        Raises:
            BotorchTensorDimensionError: If `X` does not have the domain's columns.
            ValueError: If a level is not one of the levels, or a cost is not > 0.
        """
        batch = self.posterior.batch_shape
        shape = torch.broadcast_shapes(X.shape[:-2], batch)
        X = X.expand(*shape, *X.shape[-2:])
        if batch:
            X = X.movedim(-3, 0)
        flat = X.reshape(batch.numel(), -1, X.shape[-1])  # B x m x d
        (posterior,) = self._conditioned
        targets = self._targets(posterior)
        entries = _CHUNK_ENTRIES.get(X.device.type, 2**18)
        chunk = max(1, entries // max(1, targets.index.numel()))
        values = evaluate_in_chunks(partial(self._at, posterior, targets), flat, chunk)
        values = values.reshape(X.shape[:-1])
        return values.movedim(0, -2) if batch else values

    def evaluate_domain(self) -> Tensor:
        r"""Gains per cost at every point of the domain and every noise level.

        Returns:
            `batch_shape x (|D| K)`, the level fastest; minus infinity where there is no candidate.
        """
        (posterior,) = self._conditioned
        values = self._on_domain(posterior, self._candidate_rows(), self.previous)
        return values.reshape(*self.posterior.batch_shape, -1)

    def domain_candidates(self) -> Tensor:
        r"""The points that `evaluate_domain` values, `(|D| K) x d`, levels in the last column."""
        domain, count = self.posterior.domain, self.terms.num_levels
        if self.terms.levels is None:
            return domain
        X = domain.repeat_interleave(count, dim=-2)
        level = torch.arange(count).to(X).repeat(domain.shape[-2]).unsqueeze(-1)
        return torch.cat([X, level.expand(*X.shape[:-1], 1)], dim=-1)

    def select(self, q: int = 1) -> Selection:
        r"""The next points by greedy covering, best first.

        M, `beta` and `eta` stay; each chosen point enters with its noise, and is the previous
        point of the next one. A batch ends short when no candidate has a positive gain left.
        Ties, exact at the end of an epoch, go to the larger gain without truncation, then to the
        lower index.

        Args:
            q: The most points to choose.

        Raises:
            ValueError: If a cost is not finite and > 0.
        """
        (posterior,) = self._conditioned
        batch, count = posterior.batch_shape.numel(), self.terms.num_levels
        rows, previous, picks = self._candidate_rows(), self.previous, []
        going = torch.ones(batch, dtype=torch.bool, device=rows[0].device)
        for pick in range(q):
            values = self._on_domain(posterior, rows, previous).flatten(1)  # B x (|D| K)
            best, choice = self._best(values, posterior, previous)
            going = going & (best > 0)
            picks.append((choice, best.where(going, 0.0), going))
            if pick + 1 == q or not bool(going.any()):
                break
            posterior = posterior.copy() if pick == 0 else posterior
            place = choice // count
            noise = self.terms.domain_noise(posterior).flatten(1).gather(-1, choice[:, None])
            mean = posterior.mean.reshape(batch, -1).gather(-1, place[:, None]).squeeze(-1)
            outcome = mean.where(going, torch.nan)
            posterior.observe(place.reshape(posterior.batch_shape), outcome, noise)
            previous = self._domain_points(place.unsqueeze(-1)).reshape(*posterior.batch_shape, -1)
        return self._selection(picks, q)

    def _selection(self, picks: list[tuple[Tensor, Tensor, Tensor]], q: int) -> Selection:
        choice, value, chosen = (torch.stack(part, dim=-1) for part in zip(*picks, strict=True))
        short = q - choice.shape[-1]
        choice, value, chosen = (
            torch.nn.functional.pad(part, (0, short)) for part in (choice, value, chosen)
        )
        batch, count = self.posterior.batch_shape, self.terms.num_levels
        X = self._domain_points(choice // count)
        if self.terms.levels is not None:
            X = torch.cat([X, (choice % count).to(X).unsqueeze(-1)], dim=-1)
        return Selection(
            X=X.where(chosen.unsqueeze(-1), torch.nan).reshape(*batch, q, -1),
            index=(choice // count).where(chosen, -1).reshape(*batch, q),
            level=(choice % count).reshape(*batch, q),
            value=value.reshape(*batch, q),
        )

    def _at(self, posterior: DomainPosterior, targets: Targets, X: Tensor) -> Tensor:
        r"""Values at `B x m x d` points."""
        points, level = self._split(X)
        at = posterior.at(points)
        covariance = posterior.cross_covariance(at, posterior.points(targets.index))
        inverse = _inverse(at.variance + self._noise(points, level, posterior), posterior)
        cost = self.terms.cost_at(points, self._previous_row(self.previous, len(X)))
        cost = cost.expand(*points.shape[:-1], -1).gather(-1, level.unsqueeze(-1)).squeeze(-1)
        if self.anticipate:
            return anticipated_gain(covariance, inverse, targets, posterior, self.state) / cost
        return gain(covariance, inverse, targets) / cost  # Eq. (3)

    def _on_domain(
        self,
        posterior: DomainPosterior,
        rows: tuple[Tensor, Tensor],
        previous: Tensor | None,
        truncate: bool = True,
    ) -> Tensor:
        r"""Values on the domain, `B x |D| x K`; minus infinity outside the rows."""
        index, valid = rows
        noise = self.terms.domain_noise(posterior)  # B x |D| x K
        variance = posterior.variance.reshape(noise.shape[:-1])
        inverse = _inverse(variance.unsqueeze(-1) + noise, posterior)
        spread = index.unsqueeze(-1).expand(*index.shape, noise.shape[-1])
        inverse = inverse.gather(-2, spread)
        if self.anticipate and truncate:
            targets = self._targets(posterior)

            def anticipated(block: Tensor, inverse: Tensor) -> Tensor:
                levels = inverse.unbind(dim=-1)
                gains = [anticipated_gain(block, i, targets, posterior, self.state) for i in levels]
                return torch.stack(gains, dim=-1)

            gains = map_rows(anticipated, posterior, index, inverse, targets)
        else:
            targets = Targets.of(posterior, self.state, self.weights, truncate)
            gains = gain_on_domain(posterior, index, inverse, targets)
        cost = self.terms.cost_at(
            self._domain_points(index), self._previous_row(previous, len(index))
        )
        scored = (gains / cost).where(valid.unsqueeze(-1), -torch.inf)  # Eq. (3)
        values = torch.full_like(noise, -torch.inf)
        # Filling has the lowest value, so that a point keeps its own.
        return values.scatter_reduce(-2, spread, scored, "amax")

    def _targets(self, posterior: DomainPosterior) -> Targets:
        return Targets.of(posterior, self.state, self.weights, truncate=not self.anticipate)

    def _best(
        self, values: Tensor, posterior: DomainPosterior, previous: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        r"""The best value and its candidate of each replicate, ties broken."""
        best = values.amax(dim=-1)
        tied = values >= (best - _TIE * best.abs()).unsqueeze(-1)
        if bool((tied.sum(dim=-1) > 1).any()):
            places = tied.unflatten(-1, (-1, self.terms.num_levels)).any(dim=-1)
            rows = padded_index(places)
            whole = self._on_domain(posterior, rows, previous, truncate=False).flatten(1)
            whole = whole.where(tied, -torch.inf)
            most = whole.amax(dim=-1, keepdim=True)
            tied = whole >= most - _TIE * most.abs()
        return best, tied.to(torch.uint8).argmax(dim=-1)

    def _candidate_rows(self) -> tuple[Tensor, Tensor]:
        return padded_index(self.candidates.reshape(-1, self.candidates.shape[-1]))

    def _domain_points(self, index: Tensor) -> Tensor:
        r"""Points of the domain, `B x m x d`."""
        domain = self.posterior.domain.expand(len(index), *self.posterior.domain.shape[-2:])
        return domain.gather(-2, index.unsqueeze(-1).expand(*index.shape, domain.shape[-1]))

    def _split(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Points and levels `... x m`."""
        levels = self.terms.levels
        columns = self.posterior.domain.shape[-1] + (levels is not None)
        if X.shape[-1] != columns:
            raise BotorchTensorDimensionError(
                f"Expected `X` to have {columns} columns, with the noise level in the last if "
                f"there are levels. Got {X.shape=}."
            )
        if levels is None:
            return X, torch.zeros_like(X[..., 0], dtype=torch.long)
        level = X[..., -1].detach()
        if not bool((level.frac() == 0).logical_and(level >= 0).all()) or level.max() >= len(
            levels
        ):
            raise ValueError(
                f"Expected noise levels in 0, .., {len(levels) - 1} in the last column of `X`. "
                f"Got {level.flatten()[:3].tolist()}."
            )
        return X[..., :-1], level.long()

    def _noise(self, points: Tensor, level: Tensor, posterior: DomainPosterior) -> Tensor:
        r"""Noise variances `B x m` at points and their levels."""
        noise = self.terms.noise_at(points, posterior)
        return noise.gather(-1, level.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def _previous_row(previous: Tensor | None, batch: int) -> Tensor | None:
        r"""The last point, `B x 1 x d`."""
        if previous is None:
            return None
        return previous.reshape(-1, 1, previous.shape[-1]).expand(batch, 1, -1)


def _inverse(variance: Tensor, posterior: DomainPosterior) -> Tensor:
    r"""One over a variance of outcomes; 0 where there is neither variance nor noise."""
    shape = (-1, *[1] * (variance.dim() - 1))
    known = variance > posterior.resolution.reshape(shape)
    return torch.where(known, variance, 1.0).reciprocal().where(known, 0.0)


def _candidate_mask(candidates: str | Tensor, state: TruncatedVarianceState) -> Tensor:
    every = state.unclassified
    if isinstance(candidates, Tensor):
        if candidates.dtype != torch.bool or candidates.shape[-1] != every.shape[-1]:
            raise BotorchTensorDimensionError(
                "Expected `candidates` as a mask, `batch_shape x |D|`, "
                f"{every.shape[-1]} points. Got {candidates.dtype}, {candidates.shape=}."
            )
        mask = candidates.expand(every.shape)
    elif candidates in ("domain", "unclassified"):
        mask = every if candidates == "unclassified" else torch.ones_like(every)
        mask = mask | ~mask.any(dim=-1, keepdim=True)  # nothing left: all points, of no gain
    else:
        raise ValueError(
            f"Expected `candidates` 'domain', 'unclassified' or a mask. Got {candidates!r}."
        )
    if not bool(mask.any(dim=-1).all()):
        raise InputDataError("Expected at least one candidate in each replicate. Got none.")
    return mask


def _checked_weights(weights: Tensor | None, posterior: DomainPosterior) -> Tensor | None:
    if weights is None:
        return None
    if weights.shape != posterior.domain.shape[-2:-1]:
        raise BotorchTensorDimensionError(
            f"Expected `weights` of the {posterior.domain.shape[-2]} points. Got {weights.shape=}."
        )
    if not bool((weights.isfinite() & (weights > 0)).all()):
        raise ValueError(f"Expected finite `weights` > 0. Got {weights.min()=}, {weights.max()=}.")
    return weights


@acqf_input_constructor(TruncatedVarianceReduction)
def construct_inputs_truncated_variance(
    model: Model,
    state: TruncatedVarianceState,
    domain: Tensor,
    dense: bool = True,
    X_pending: Tensor | None = None,
    **options: Any,
) -> dict[str, Any]:
    r"""Arguments of the acquisition function, from a model of all samples so far."""
    posterior = DomainPosterior(model, domain, dense=dense)
    return {"posterior": posterior, "state": state, "X_pending": X_pending, **options}
