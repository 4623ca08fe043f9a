r"""Samples a finite domain and keeps its joint posterior up to date."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_risk.acquisition.truncated_variance.goals import LevelSetGoal, Sets
from botorch_risk.acquisition.truncated_variance.sampling import SamplingTerms
from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.strategies.classification import Classification
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Method, State, View
from botorch_risk.strategies.space import Space

ModelFactory = Callable[[Tensor, Tensor, Tensor | None], Model]


class Sampler(ABC):
    r"""How the next points of a finite domain are chosen.

    Example:
        >>> from botorch_risk.strategies import Strategy
        >>> class LeastKnown(Sampler):
        ...     def choose(self, view, terms):
        ...         best = view.belief.posterior.variance.argmax(dim=-1)  # R
        ...         return view.space.domain[best].unsqueeze(-2)
        >>> space = FiniteDomain(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> strategy = Strategy(space, SampleDomain(LeastKnown()), seeds=0, num_initial=3)
        >>> for _ in range(3):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (6 * X).sin())
        >>> strategy.history.X.unique()  # all points, each once
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000], dtype=torch.float64)
    """

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        r"""What is to be kept beyond the data, before there are any."""
        return {}

    @abstractmethod
    def choose(self, view: View, terms: SamplingTerms) -> Tensor:
        r"""The rows of the next round, `R x q x d_asked`; NaN where nothing is to be sampled."""

    def learn(self, view: View, paid: Tensor) -> State:
        r"""The state after a round whose samples cost `R` units."""
        return view.state

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets] | None:
        r"""The level that is sought and the sets so far, `R x |D|` each; None if none is sought."""
        return None


@dataclass
class DomainBelief:
    r"""The posterior of a finite domain, and how many rows of the history it holds."""

    posterior: DomainPosterior
    built: int
    num_rows: int


@dataclass(frozen=True)
class SampleDomain(Method):
    r"""A method on the points of a finite domain.

    The model is built of all data at first and every `refit_every` rounds; samples in between are
    rank-one updates of the posterior, and are taken at any point of the box round the domain. NaN
    rows ask for nothing: the replicate is finished, or its batch has ended short. They are told as
    NaN, like outcomes that failed. The point of highest posterior mean is recommended, whatever is
    sought; the answer to a level set is `Strategy.classify`.

    The state holds the cost of all samples, `cost`, each row counted once whatever the number of
    its repeats, and the last point, `previous`.

    The loop of Algorithm 1 of [Bogunovic2016truvar]_, with any sampler.

    Args:
        sampler: How points are chosen.
        terms: Noise and cost of samples.
        model: From points `R x n x d`, outcomes `R x n x 1` and their noise variances (`None` if
            the noise is inferred) to an exact GP of batch shape `[R]`.
        estimator: Fits that model; `None` takes its hyperparameters as known.
        refit_every: After how many rounds the model is built again; `None` for never.
        dense: Whether the posterior holds the covariance of the domain.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `refit_every` is below 1.

    Example:
        >>> from botorch_risk.acquisition import Maximize
        >>> from botorch_risk.strategies import Strategy, TruncateVariance
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

    def __post_init__(self) -> None:
        check_fields(self)
        if self.refit_every is not None:
            check_counts(refit_every=self.refit_every)

    def start(self, space: Space, num_replicates: int) -> State:
        r"""No cost so far."""
        bounds = space.bounds
        return {
            "cost": torch.zeros(num_replicates, dtype=torch.float64, device=bounds.device),
            "previous": bounds.new_full((num_replicates, bounds.shape[-1]), torch.nan),
            **self.sampler.start(space, num_replicates),  # type: ignore[arg-type]
        }

    def group_by(self, history: History) -> Tensor:
        r"""The round that the model is built in, and the number of outcomes before it."""
        built = self._built(history)
        early = history.rounds.to(built.device) < built.unsqueeze(-1)
        return torch.stack([built, (history.has_outcome & early).sum(dim=-1)], dim=-1)

    def believe(self, view: View) -> DomainBelief:
        r"""The posterior of all samples so far."""
        built = int(self._built(view.history)[0])
        belief: DomainBelief | None = view.previous
        if belief is None or belief.built != built:
            belief = self._build(view, built)
        X, Y = view.history.X, view.history.Y[..., 0]
        for row in range(belief.num_rows, view.history.num_rows):
            points, index, noise = self._samples(
                view.space, X[:, row : row + 1], Y[:, row : row + 1]
            )
            y = Y[:, row].nanmean(dim=-1)
            missing = y.isnan()
            variance = None if noise is None else noise.squeeze(-1).nan_to_num(nan=1.0)
            position = index.squeeze(-1).where(~missing, 0)
            if (position >= 0).all():
                belief.posterior.observe(position, y, variance)
            else:
                x = points.squeeze(-2).where(~missing.unsqueeze(-1), view.space.domain[0])
                belief.posterior.observe_at(x, y, variance)
        belief.num_rows = view.history.num_rows
        return belief

    def propose(self, view: View) -> Tensor:
        r"""The sampler's points."""
        return self.sampler.choose(view, self.terms)

    def learn(self, view: View) -> State:
        r"""Adds what the last round cost."""
        last = view.history.rounds == view.round - 1
        points, level = self._points(view.space, view.history.X[:, last])
        previous = view.state["previous"]
        nowhere = previous.isnan()
        known = None if nowhere.all() else previous.where(~nowhere, points[:, 0].nan_to_num())
        paid = self.terms.cost_of(points, level, known).sum(dim=-1)
        for x in points.unbind(dim=-2):
            previous = x.where(x.isfinite(), previous)
        state = self.sampler.learn(view, paid) if view.history.has_outcome.any() else view.state
        return {**state, "cost": view.state["cost"] + paid, "previous": previous}

    def recommend(self, view: View) -> Tensor:
        r"""The point of highest posterior mean of each replicate."""
        return view.space.domain[view.belief.posterior.mean.argmax(dim=-1)]

    def classify(self, view: View) -> Classification:
        r"""The sets of the sampler, and the posterior probabilities.

        Raises:
            UnsupportedError: If the sampler seeks no level set.
        """
        if (sought := self.sampler.level_set(view)) is None:
            return super().classify(view)
        return Classification.of(*sought, view.belief.posterior)

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
        r"""The round that the model of each replicate is built in, `R`."""
        last = 1
        if self.refit_every is not None:
            last += (max(1, history.round) - 1) // self.refit_every * self.refit_every
        first = history.has_outcome.to(torch.uint8).argmax(dim=-1)  # the first row with an outcome
        if not history.num_rows:
            return first
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
        same = (points.unsqueeze(-2) == space.domain).all(dim=-1)  # R x n x |D|
        index = same.to(torch.uint8).argmax(dim=-1).where(same.any(dim=-1), -1)
        on_domain = index.clamp_min(0) if isinstance(self.terms.noise, Tensor) else None
        noise = self.terms.known_noise(points, on_domain)
        if noise is not None:
            noise = noise.expand(*index.shape, self.terms.num_levels)
            noise = noise.gather(-1, level.unsqueeze(-1)).squeeze(-1)
            noise = noise / Y.isfinite().sum(dim=-1).clamp_min(1)
        return points, index, noise

    def _points(self, space: FiniteDomain, rows: Tensor) -> tuple[Tensor, Tensor]:
        r"""Points `R x n x d`, NaN where there is none, and their levels `R x n`."""
        missing = rows.isnan().any(dim=-1, keepdim=True)
        points, level = self.terms.split(rows.where(~missing, 0.0), space.domain.shape[-1])
        return points.where(~missing, torch.nan), level


def _normalized(bounds: Tensor) -> ModelFactory:
    r"""BoTorch's default model on the unit cube, with standardised outcomes."""
    lower, upper = bounds
    box = torch.stack([lower, upper.where(upper > lower, lower + 1)])  # a single value

    def model(X: Tensor, Y: Tensor, noise: Tensor | None) -> Model:
        options = {} if noise is None else {"train_Yvar": noise.expand_as(Y)}
        return standardized_gp(X, Y, input_transform=Normalize(X.shape[-1], bounds=box), **options)

    return model
