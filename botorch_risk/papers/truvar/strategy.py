r"""Truncated variance reduction on a finite domain [Bogunovic2016truvar]_."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from botorch.utils.probability.utils import ndtr
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts, check_fields
from botorch_risk.engine import Belief, DomainPosterior
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.models.scaled_gp import kernel_and_mean
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.papers.truvar.acquisition import TruncatedVarianceReduction
from botorch_risk.papers.truvar.covering import checked_weights, top_candidates
from botorch_risk.papers.truvar.goals import Goal, LevelSetGoal, Sets
from botorch_risk.papers.truvar.sampling import Cost, Noise, NoiseLevels, SamplingTerms
from botorch_risk.papers.truvar.state import TruncatedVarianceState
from botorch_risk.steady import steady
from botorch_risk.strategies.finite_domain import FiniteDomain, PosteriorMean, maximize_between
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Classification, Method, State, View
from botorch_risk.strategies.prediction import (
    Interval,
    Prediction,
    check_num_samples,
    normal_interval,
    predict_by_models,
    sample_for_intervals,
)
from botorch_risk.strategies.space import Space
from botorch_risk.strategies.strategy import Strategy

ModelFactory = Callable[[Tensor, Tensor, Tensor | None], Model]


class Sampler(ABC):
    r"""A rule that chooses the next points of a finite domain."""

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        r"""The initial state beyond the data."""
        return {}

    @abstractmethod
    def choose(self, view: View, terms: SamplingTerms) -> Tensor:
        r"""The rows of the next round, `R x q x d_asked`; NaN where nothing is to be sampled."""

    def learn(self, view: View, paid: Tensor) -> State:
        r"""The state after a round with costs `R`."""
        return view.state

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets] | None:
        r"""The goal and the sets so far, `R x |D|` each; None if the goal is not a level set."""
        return None


@dataclass
class DomainBelief:
    r"""The posterior of a finite domain, and the number of history rows that it includes."""

    posterior: DomainPosterior
    built: int
    num_rows: int


@dataclass(frozen=True)
class SampledDomain:
    r"""The processes by samples of the hyperparameters, for predictions and probabilities.

    Args:
        parts: Replicates with as many outcomes, and their model of batch shape `[S, R]`.
    """

    parts: list[tuple[list[int], Any]]

    def predict(self, X: Tensor) -> Prediction:
        r"""Predict by the mixture, at inputs `R x n x d`."""
        found = [predict_by_models([model], X[rows]) for rows, model in self.parts]
        outcome = Interval(*map(self._joined, *(each.outcome for each in found)))
        noise = self._joined(*(each.noise for each in found))
        intervals: Any = [each.noise_interval for each in found]
        lower, upper = map(self._joined, *intervals)
        return Prediction(outcome, noise, (lower, upper))

    def probability(self, goal: LevelSetGoal, domain: Tensor) -> Tensor:
        r"""The probabilities of being at or above the level, `R x |D|`.

        The level is one of the mixture's mean.
        """
        found = []
        for _, model in self.parts:
            mean, variance = Belief(model)(domain.expand(*model.batch_shape, *domain.shape))
            excess = mean - goal.level(mean.mean(dim=0))
            found.append(ndtr(excess / variance.sqrt()).mean(dim=0))
        return self._joined(*found)

    def _joined(self, *parts: Tensor) -> Tensor:
        # The parts come by their numbers of outcomes: back to the order of the replicates.
        order = [row for rows, _ in self.parts for row in rows]
        return torch.cat(parts)[torch.tensor(order).argsort()]


@dataclass(frozen=True)
class SampleDomain(Method):
    r"""A method on the points of a finite domain.

    The model is built from all data at first and every `refit_every` rounds; samples in between are
    rank-one updates of the posterior, at any point of the box around the domain. NaN rows ask for
    nothing: the replicate is finished, or its batch is shorter. Tell them as NaN, like failed
    outcomes. It recommends the point with the highest posterior mean, whatever the goal; for a
    level set the answer is `Strategy.classify`.

    The state holds the cost of all samples, `cost`, each row counted once regardless of its
    repeats, and the last point, `previous`.

    The loop of Algorithm 1 of [Bogunovic2016truvar]_, with any sampler.

    Args:
        sampler: How points are chosen.
        terms: Noise and cost of samples.
        model: Maps points `R x n x d`, outcomes `R x n x 1` and their noise variances (`None` if
            the noise is inferred) to an exact GP of batch shape `[R]`.
        estimator: Fits that model; with `None` its hyperparameters are taken as known.
        refit_every: The number of rounds between rebuilds of the model; `None` for never.
        dense: Whether the posterior holds the covariance of the domain.
        anywhere: Whether the recommendation may be any point of the box round the domain.
        num_samples: Samples of the hyperparameters for predictions and for the probabilities of
            classes, given all data: those of `scaled_gp`, or of `model` if one is given. Choices
            and the sets of the paper come from the fit. 0 for the fitted hyperparameters, whose
            95 % intervals contained .53 to .94 of f in development (`docs/coverage.md`). Without
            effect if hyperparameters are known, or for an estimator of another kind.

    Example:
        >>> from botorch_risk.papers import Maximize, TruncateVariance
        >>> from botorch_risk.strategies import Strategy
        >>> method = SampleDomain(TruncateVariance(Maximize()), SamplingTerms(noise=1e-4))
        >>> space = FiniteDomain(torch.linspace(0, 1, 30, dtype=torch.double).unsqueeze(-1))
        >>> strategy = Strategy(space, method, seeds=0, num_initial=3)
        >>> for _ in range(6):
        ...     X = strategy.ask()
        ...     strategy.tell(X, -((X - 0.3) ** 2))
        >>> round(strategy.recommend().item(), 1), strategy.state["cost"]
        (0.3, tensor([8.], dtype=torch.float64))
    """

    sampler: Sampler
    terms: SamplingTerms = field(default_factory=SamplingTerms)
    model: ModelFactory | None = None
    estimator: Estimator | None = field(default_factory=MaximumAPosteriori)
    refit_every: int | None = None
    dense: bool = True
    anywhere: bool = False
    num_samples: int = 16

    def __post_init__(self) -> None:
        check_fields(self)
        check_num_samples(self.num_samples)
        if self.refit_every is not None:
            check_counts(refit_every=self.refit_every)

    def start(self, space: Space, num_replicates: int) -> State:
        if getattr(space, "categories", ()):
            raise UnsupportedError(
                "Expected a domain without categories: its posterior has one kernel of all "
                f"columns. Got {space.categories=}."  # type: ignore[attr-defined]
            )
        bounds = space.bounds
        return {
            "cost": torch.zeros(num_replicates, dtype=torch.float64, device=bounds.device),
            "previous": bounds.new_full((num_replicates, bounds.shape[-1]), torch.nan),
            **self.sampler.start(space, num_replicates),  # type: ignore[arg-type]
        }

    def group_by(self, history: History) -> Tensor:
        r"""The round in which the model is built, and the number of outcomes before it."""
        # One model has as many rows in each replicate; what is missing later is skipped.
        built = self._built(history)
        early = history.rounds.to(built.device) < built.unsqueeze(-1)
        return torch.stack([built, (history.has_outcome & early).sum(dim=-1)], dim=-1)

    def believe(self, view: View) -> DomainBelief:
        r"""The posterior of all samples so far."""
        built = int(self._built(view.history)[0])
        belief: DomainBelief | None = view.previous
        if belief is None or belief.built != built:
            belief = self._build(view, built)
        if belief.num_rows < view.history.num_rows:
            self._observe(belief, view)
        return belief

    def _observe(self, belief: DomainBelief, view: View) -> None:
        r"""Add the rows of the history that a belief has not."""
        Y = view.history.Y[:, belief.num_rows :, :, 0]
        points, index, noise = self._samples(view.space, view.history.X[:, belief.num_rows :], Y)
        y = Y.nanmean(dim=-1)
        missing = y.isnan()
        # Nothing is observed where an outcome is missing: any point and noise fill the place.
        belief.posterior.observe_all(
            points.where(~missing.unsqueeze(-1), view.space.domain[0]),
            y,
            None if noise is None else noise.where(~missing, 1.0),
            index.where(~missing, 0),
        )
        belief.num_rows = view.history.num_rows

    def believe_intervals(self, view: View) -> DomainBelief | SampledDomain:
        r"""The processes by samples of the hyperparameters, given all data.

        Raises:
            UnsupportedError: If the hyperparameters of the model cannot be sampled.
        """
        if not self.num_samples or not isinstance(self.estimator, MaximumAPosteriori):
            belief: DomainBelief = view.belief
            return belief
        counts = view.history.has_outcome.sum(dim=-1)
        parts = []
        for count in counts.unique().tolist():  # finished replicates have fewer outcomes
            rows = (counts == count).nonzero().flatten().tolist()
            parts.append((rows, self._sampled(view.of(rows))))
        return SampledDomain(parts)

    def _sampled(self, view: View) -> Model:
        X, Y = view.history.complete()
        points, _, noise = self._samples(view.space, X, Y)
        S, variance = self.num_samples, None
        if noise is not None:
            variance = noise.expand(S, *noise.shape).unsqueeze(-1)
        Y = Y.nanmean(dim=-1, keepdim=True).expand(S, *Y.shape[:-1], 1)
        make = self.model or _normalized(view.space.bounds, scaled=True)
        model: Any = make(points.expand(S, *points.shape), Y, variance)
        sample_for_intervals(model, view.history.streams("hyperparameters"))
        return model

    @property
    def repeats_settings(self) -> bool:
        r"""A second reading of a point is a choice of the paper's: one point may be left."""
        return True

    def propose(self, view: View) -> Tensor:
        view.belief  # noqa: B018 - its model is written to before the block
        with steady():  # else every reading of the posterior compares the model's parameters
            return self.sampler.choose(view, self.terms)

    def learn(self, view: View) -> State:
        r"""Adds the cost of the last round."""
        last = view.history.rounds == view.round - 1
        rows = view.history.X[:, last]
        if isinstance(self.terms.noise, Tensor):  # is it known at these points?
            self._samples(view.space, rows, view.history.Y[:, last, :, 0])
        points, level = self._points(view.space, rows)
        previous = view.state["previous"]
        nowhere = previous.isnan()
        # A cost function never sees NaN: without a last point, a replicate is at its first new one.
        known = None if nowhere.all() else previous.where(~nowhere, points[:, 0].nan_to_num())
        paid = self.terms.cost_of(points, level, known).sum(dim=-1)
        for x in points.unbind(dim=-2):
            previous = x.where(x.isfinite(), previous)
        state = view.state
        if view.history.has_outcome.any():
            view.belief  # noqa: B018 - its model is written to before the block
            with steady():
                state = self.sampler.learn(view, paid)
        return {**state, "cost": view.state["cost"] + paid, "previous": previous}

    def recommend(self, view: View) -> Tensor:
        posterior = view.belief.posterior
        if not self.anywhere:
            return view.space.domain[posterior.mean.argmax(dim=-1)]
        seeds = view.history.streams("recommendation")
        best, _ = maximize_between(PosteriorMean(posterior), posterior.mean, view.space, seeds)
        return best.squeeze(-2)

    def classify(self, view: View) -> Classification:
        r"""The sets of the sampler, and the posterior probabilities."""
        if (sought := self.sampler.level_set(view)) is None:
            return super().classify(view)
        found = classes_of(*sought, view.belief.posterior)
        if isinstance(belief := view.interval_belief, SampledDomain):
            goal, domain = sought[0], view.space.domain
            found = replace(found, probability=belief.probability(goal, domain))
        return found

    def predict(self, view: View, X: Tensor) -> Prediction:
        r"""Predict by the interval belief, at any points of the box around the domain."""
        points, _, noise = self._samples(view.space, X, torch.zeros_like(X[..., :1]))
        if isinstance(belief := view.interval_belief, SampledDomain):
            found = belief.predict(points)
            if noise is None:
                return found
            return Prediction(found.outcome, noise.sqrt().unsqueeze(-1))
        posterior = belief.posterior
        if noise is None:
            noise = posterior.inferred_noise(points)
        with torch.no_grad():
            at = posterior.at(points)
        outcome = normal_interval(at.mean, at.variance)
        return Prediction(
            Interval(*(each.unsqueeze(-1) for each in outcome)), noise.sqrt().unsqueeze(-1)
        )

    def model_of(self, view: View, row: int) -> Model:
        r"""A model of all data of one replicate, without a batch dimension."""
        history = view.history.of([row])
        X, Y = history.complete()
        points, _, noise = self._samples(view.space, X, Y)
        variance = None if noise is None else noise[0].unsqueeze(-1)
        return self._fitted(view, points[0], Y[0].nanmean(dim=-1, keepdim=True), variance, [row])

    def _fitted(
        self, view: View, X: Tensor, Y: Tensor, noise: Tensor | None, rows: Sequence[int]
    ) -> Model:
        make = self.model or _normalized(view.space.bounds)
        model: Any = make(X, Y, noise)
        if self.estimator is None:
            return model
        return self.estimator(model, [view.seeds[row] for row in rows], view.round)

    def _built(self, history: History) -> Tensor:
        r"""The round in which each replicate's model is built, `R`."""
        last = 1
        if self.refit_every is not None:
            # The model is built in rounds 1, 1 + refit_every, 1 + 2 refit_every, ...
            last += (max(1, history.round) - 1) // self.refit_every * self.refit_every
        first = history.has_outcome.to(torch.uint8).argmax(dim=-1)  # the first row with an outcome
        if not history.num_rows:
            return first
        # Not before the round that follows a replicate's first outcome.
        return (history.rounds.to(first.device)[first] + 1).clamp_min(last)

    def _build(self, view: View, built: int) -> DomainBelief:
        early = view.history.before(built)
        X, Y = early.complete()
        points, _, noise = self._samples(view.space, X, Y)
        variance = None if noise is None else noise.unsqueeze(-1)
        Y = Y.nanmean(dim=-1, keepdim=True)
        model = self._fitted(view, points, Y, variance, range(len(view.seeds)))
        posterior = DomainPosterior(model, view.space.domain, dense=self.dense)
        return DomainBelief(posterior, built, early.num_rows)

    def _samples(
        self, space: FiniteDomain, rows: Tensor, Y: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        r"""Points, their index in the domain (-1 if off it), known noise of the mean, `R x n`."""
        points, level = self._points(space, rows)
        # In all digits: a point that was rounded is off the domain, and observed where it is.
        same = (points.unsqueeze(-2) == space.domain).all(dim=-1)  # R x n x |D|
        index = same.to(torch.uint8).argmax(dim=-1).where(same.any(dim=-1), -1)
        off = (index < 0) & points.isfinite().all(dim=-1)  # whose noise is in no table
        on_domain = None if off.any() else index.clamp_min(0)
        noise = self.terms.known_noise(points, on_domain)
        if noise is not None:
            noise = noise.expand(*index.shape, self.terms.num_levels)
            noise = noise.gather(-1, level.unsqueeze(-1)).squeeze(-1)
            # The mean of k readings has the variance noise / k.
            noise = noise / Y.isfinite().sum(dim=-1).clamp_min(1)
        return points, index, noise

    def _points(self, space: FiniteDomain, rows: Tensor) -> tuple[Tensor, Tensor]:
        r"""Points `R x n x d`, NaN if missing, and their levels `R x n`."""
        missing = rows.isnan().any(dim=-1, keepdim=True)
        # `split` would refuse NaN as a level.
        points, level = self.terms.split(rows.where(~missing, 0.0), space.domain.shape[-1])
        return points.where(~missing, torch.nan), level


def _normalized(bounds: Tensor, scaled: bool = False) -> ModelFactory:
    r"""BoTorch's default model, or a `scaled_gp`, on the unit cube, with standardised outcomes."""
    lower, upper = bounds
    box = torch.stack([lower, upper.where(upper > lower, lower + 1)])  # a single value

    def model(X: Tensor, Y: Tensor, noise: Tensor | None) -> Model:
        options: dict[str, Any] = {} if noise is None else {"train_Yvar": noise.expand_as(Y)}
        unit = Normalize(X.shape[-1], bounds=box)
        if scaled:
            options |= kernel_and_mean(X, unit)
        return standardized_gp(X, Y, input_transform=unit, **options)

    return model


@dataclass(frozen=True)
class TruncateVariance(Sampler):
    r"""Samples the points that shrink truncated variances most per cost.

    Algorithm 1, line 3, of [Bogunovic2016truvar]_.

    Args:
        goal: The goal.
        initial: Further arguments of `TruncatedVarianceState.initial`: `a`, `eta`, `r`, `slack`,
            `monotone`, `width`, `domain_size`.
        candidates: Which points may be sampled.
        weights: `|D|` weights of the points in the sum.
        anticipate: Whether to anticipate changes of the set.
        prefilter: The maximum number of candidates, those with the largest upper confidence bounds
            (Appendix A). Default: all.
        anywhere: Whether to sample between the points of the domain too, in the box round it,
            where the acquisition is maximised from its best points. The sum stays over the domain,
            whose points represent a continuous one (Appendix A, "Continuous domains").

    Raises:
        UnsupportedError: When asked, if there are noise levels and samples are taken anywhere.
    """

    goal: Goal
    initial: Mapping[str, Any] = field(default_factory=dict)
    candidates: Literal["domain", "unclassified"] = "domain"
    weights: Tensor | None = None
    anticipate: bool = False
    prefilter: int | None = None
    anywhere: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.prefilter is not None:
            check_counts(prefilter=self.prefilter)

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        if self.anywhere and space.num_levels is not None:
            raise UnsupportedError(
                "Expected one noise level for samples between the points of the domain. "
                f"Got {space.num_levels} levels."
            )
        checked_weights(self.weights, space.domain)
        return _tensors(self._initial(space.domain, num_replicates))

    def choose(self, view: View, terms: SamplingTerms) -> Tensor:
        posterior = view.belief.posterior
        state = self.restored(view.space.domain, view.state, view.round)
        acquisition = TruncatedVarianceReduction(
            posterior,
            state,
            previous=view.state["previous"],
            cost=terms.cost,
            noise=terms.noise,
            levels=terms.levels,
            candidates=self._candidates(posterior, state),
            weights=self.weights,
            anticipate=self.anticipate,
            X_pending=view.running,
        )
        if not self.anywhere:
            return acquisition.select(view.batch_size).X
        return self._anywhere(view, acquisition)

    def _candidates(self, posterior: DomainPosterior, state: TruncatedVarianceState) -> Any:
        r"""The points that may be sampled: by a name, or a mask `R x |D|`."""
        found: Any = self.candidates
        if self.prefilter is not None:
            within = None if self.candidates == "domain" else state.unclassified
            count = min(self.prefilter, posterior.domain.shape[-2])
            found = top_candidates(posterior, count, beta=state.beta, within=within)
        return found

    def _anywhere(self, view: View, acquisition: TruncatedVarianceReduction) -> Tensor:
        r"""Rows `R x q x d` of the box, each given the ones before it; NaN without a gain."""
        going = ~acquisition.state.finished
        picks: list[Tensor] = []
        for pick, seeds in enumerate(
            view.history.streams("acquisition", pick) for pick in range(view.batch_size)
        ):
            if pick:
                pending = torch.cat([view.history.running, *picks], dim=-2)
                # A replicate that has ended is not asked again, so any point may fill its place.
                acquisition.set_X_pending(pending.where(pending.isfinite(), view.space.domain[0]))
            on_domain = acquisition.evaluate_domain()
            X, value = maximize_between(acquisition, on_domain, view.space, seeds)
            going = going & (value > 0)
            picks.append(X.where(going[:, None, None], torch.nan))
        return torch.cat(picks, dim=-2)

    def learn(self, view: View, paid: Tensor) -> State:
        r"""The sets and the epoch after a round."""
        # The number of updates so far: 0 for the initial design, whose outcomes may warn.
        state = self.restored(view.space.domain, view.state, view.round - 1)
        state = state.update(view.belief.posterior, paid)
        return {**view.state, **_tensors(state)}

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets] | None:
        r"""The goal and its sets, unless the goal is the maximum."""
        if not isinstance(self.goal, LevelSetGoal):
            return None
        return self.goal, self.restored(view.space.domain, view.state, view.round).sets

    def restored(self, domain: Tensor, state: State, num_updates: int) -> TruncatedVarianceState:
        r"""The sets and the epoch of each replicate, from the state of a strategy."""
        own = {name: part for name, part in state.items() if name.startswith(_PREFIX)}
        kept: dict[str, Any] = {name.removeprefix(_PREFIX): part for name, part in own.items()}
        initial = self._initial(domain, len(kept["epoch"]))
        return replace(initial, num_updates=num_updates, **kept)

    def _initial(self, domain: Tensor, num_replicates: int) -> TruncatedVarianceState:
        return TruncatedVarianceState.initial(
            domain, self.goal, batch_shape=(num_replicates,), **self.initial
        )


_PREFIX = "truncated_variance."


def _tensors(state: TruncatedVarianceState) -> dict[str, Tensor]:
    # The other fields follow from the arguments of the method, and from the round.
    values = {each.name: getattr(state, each.name) for each in fields(state)}
    return {_PREFIX + name: value for name, value in values.items() if isinstance(value, Tensor)}


def truvar_state(strategy: Strategy) -> TruncatedVarianceState:
    r"""The sets, the epoch and the cost of each replicate of a `truvar` strategy.

    The quantities that Algorithm 2 of [Bogunovic2016truvar]_ updates.

    Raises:
        UnsupportedError: If it is a strategy of another method.

    Example:
        >>> import torch
        >>> from botorch_risk.papers import Maximize
        >>> domain = torch.linspace(0, 1, 30, dtype=torch.double).unsqueeze(-1)
        >>> strategy = truvar(domain, [0, 1], goal=Maximize(), noise=1e-4, num_initial=3)
        >>> truvar_state(strategy).unclassified.sum(dim=-1)  # each may be the maximum
        tensor([30, 30])
        >>> X = strategy.ask()
        >>> strategy.tell(X, (6 * X).sin())
        >>> _ = strategy.ask()
        >>> truvar_state(strategy).cost
        tensor([3., 3.], dtype=torch.float64)
    """
    check_arguments(truvar_state, locals())
    method = strategy.method
    if not (isinstance(method, SampleDomain) and isinstance(method.sampler, TruncateVariance)):
        raise UnsupportedError(f"Expected a strategy of `truvar`. Got {type(method).__name__}.")
    space: Any = strategy.space
    return method.sampler.restored(space.domain, strategy.state, strategy.history.round)


def truvar(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    goal: Goal,
    noise: Noise | None = None,
    levels: NoiseLevels | None = None,
    cost: Cost | None = None,
    initial_level: int = 0,
    model: ModelFactory | None = None,
    estimator: Estimator | None = MaximumAPosteriori(),  # noqa: B008 it is immutable
    refit_every: int | None = None,
    dense: bool = True,
    num_initial: int = 1,
    batch_size: int = 1,
    anywhere: bool = False,
    num_samples: int = 16,
    **options: Any,
) -> Strategy:
    r"""TRUVAR, Algorithm 1 of [Bogunovic2016truvar]_, to maximise or for a level set.

    The answer to a level set is `strategy.classify()`: the points above and below the level by the
    paper's bounds, and the probabilities. `strategy.recommend()` is the point with the highest
    posterior mean.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        goal: `Maximize()`, `LevelSet(threshold)` or `RelativeLevelSet(fraction)`.
        noise: The known noise variance of an outcome: a number, `|D|` values or a function of
            points; inferred by the model if `None`.
        levels: Noise levels to choose from.
        cost: What a sample costs.
        initial_level: The noise level of the initial points.
        model: As in `SampleDomain`; BoTorch's default model on the unit cube if omitted.
        estimator: Fits the model; with `None` its hyperparameters are taken as known.
        refit_every: The number of rounds between rebuilds of the model; `None` for never, which
            suits a known model.
        dense: Whether the posterior holds the covariance of the domain, `8 |D|^2` bytes per
            replicate. From 1 GiB on, 11,600 points, a warning says how much it needs, from 4 GiB on
            an error; `False` computes its rows on demand.
        num_initial: The number of random points at the start; a model that is fitted needs several.
        batch_size: The maximum number of points in a later round.
        anywhere: Whether samples and recommendations may lie between the points of the domain, in
            the box round it. The sets stay on the domain, which should then be a grid or similarly
            dense points.
        num_samples: As in `SampleDomain`.
        options: Further arguments of `TruncateVariance`.

    Raises:
        UnsupportedError: If there are noise levels and samples are taken anywhere.

    Example:
        >>> import torch
        >>> from botorch_risk.papers import Maximize
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> strategy = truvar(domain, [0, 1], goal=Maximize(), noise=1e-4, num_initial=3)
        >>> for _ in range(2):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (6 * X).sin())
        >>> strategy.recommend().shape, strategy.state["cost"].tolist()
        (torch.Size([2, 1]), [4.0, 4.0])
    """
    check_arguments(truvar, locals())
    terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
    space = FiniteDomain(domain, None if levels is None else len(levels), initial_level)
    sampler = TruncateVariance(goal, anywhere=anywhere, **options)
    method = SampleDomain(
        sampler, terms, model, estimator, refit_every, dense, anywhere, num_samples
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


def classes_of(goal: LevelSetGoal, sets: Sets, posterior: DomainPosterior) -> Classification:
    r"""The classes of the points of a domain, with the posterior's probabilities.

    Args:
        sets: The unclassified, high and low points, `R x |D|`.
    """
    _, high, low = sets
    excess = posterior.mean - goal.level(posterior.mean)
    # Without variance the sign decides, and f at the level is high: `f >= h`.
    is_known = posterior.variance <= posterior.resolution.unsqueeze(-1)
    deviation = posterior.variance.where(~is_known, 1.0).sqrt()
    certain = (excess >= 0).to(excess)
    probability = torch.where(is_known, certain, ndtr(excess / deviation))
    return Classification(high, low, ~high & ~low, probability)
