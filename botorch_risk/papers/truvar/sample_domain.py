r"""A method on a finite domain, whose points any sampler may choose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_risk.arguments import check_counts, check_fields, check_probability
from botorch_risk.engine import DomainPosterior
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.models.scaled_gp import kernel_and_mean
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.papers.truvar.domain_belief import (
    DomainBelief,
    SampledDomain,
    classes_of,
    classes_of_sets,
    probability_of,
)
from botorch_risk.papers.truvar.goals import LevelSetGoal, Sets
from botorch_risk.papers.truvar.sampling import SamplingTerms
from botorch_risk.steady import steady
from botorch_risk.strategies.finite_domain import FiniteDomain, PosteriorMean, maximize_between
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Classification, Method, State, View
from botorch_risk.strategies.prediction import (
    NUM_HYPERPARAMETERS,
    Interval,
    Prediction,
    check_num_samples,
    normal_interval,
    sample_for_intervals,
)
from botorch_risk.strategies.space import Space

ModelFactory = Callable[[Tensor, Tensor, Tensor | None], Model]
Classes = Literal["belief", "epochs"]


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


@dataclass(frozen=True)
class SampleDomain(Method):
    r"""A method on the points of a finite domain.

    The model is built from all data at first and every `refit_every` rounds; samples in between are
    rank-one updates of the posterior, at any point of the box around the domain. NaN rows ask for
    nothing: the replicate is finished, or its batch is shorter. Tell them as NaN, like failed
    outcomes. The method recommends the point with the highest posterior mean, whatever the goal;
    for a level set the answer is `Strategy.classify`.

    The state holds the cost of all samples, `cost`, each row counted once regardless of its
    repeats, and the last point, `previous`.

    This is the loop of Algorithm 1 of [Bogunovic2016truvar]_, with any sampler.

    Args:
        sampler: How points are chosen.
        terms: Noise and cost of samples.
        model: Maps points `R x n x d`, outcomes `R x n x 1` and their noise variances (`None` if
            the noise is inferred) to an exact GP of batch shape `[R]`.
        estimator: Fits that model; with `None` its hyperparameters are taken as known.
        refit_every: The number of rounds between rebuilds of the model; `None` for never.
        dense: Whether the posterior holds the covariance of the domain.
        anywhere: Whether the recommendation may be any point of the box round the domain.
        num_samples: Number of samples of the hyperparameters for predictions and for the
            probabilities of classes, given all data, from `scaled_gp`, or from `model` if one is
            given. Proposals and the sets of the paper use the fit. Use 0 for the fitted
            hyperparameters, whose 95 % intervals contained .53 to .94 of f in development
            (`docs/coverage.md`). No effect if hyperparameters are known, or for another estimator.
        classes: The source of the classes of a level set. `"belief"`: the probabilities given all
            data, so that a later reading may change a class. `"epochs"`: the sets of the sampler,
            by the bounds of its rounds, Eqs. (6) and (7) of [Bogunovic2016truvar]_, which keep a
            point even if a later fit contradicts them. In both cases these sets decide what is
            sampled and when TRUVAR has finished.
        confidence: The probability, above 0.5, with which a point belongs to its class, for
            `"belief"`.

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
    num_samples: int = NUM_HYPERPARAMETERS
    classes: Classes = "belief"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_fields(self)
        check_num_samples(self.num_samples)
        check_probability(confidence=self.confidence)
        if self.confidence <= 0.5:
            raise ValueError(f"Expected `confidence` above 0.5. Got {self.confidence}.")
        if self.refit_every is not None:
            check_counts(refit_every=self.refit_every)

    def start(self, space: Space, num_replicates: int) -> State:
        if getattr(space, "categories", ()):
            raise UnsupportedError(
                "Expected a domain without categories: the posterior has one kernel for all "
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
        r"""The processes with sampled hyperparameters, given all data.

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
        r"""True, as the paper's rule may read a point twice: one point may be the only one left."""
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
        r"""The classes of the points, and their probabilities given all data."""
        if (sought := self.sampler.level_set(view)) is None:
            return super().classify(view)
        goal, sets = sought
        if isinstance(belief := view.interval_belief, SampledDomain):
            probability = belief.probability(goal, view.space.domain)
        else:
            probability = probability_of(goal, view.belief.posterior)
        if self.classes == "epochs":
            return classes_of_sets(sets, probability)
        return classes_of(probability, self.confidence)

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
