r"""Truncated variance reduction on a finite domain [Bogunovic2016truvar]_."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.truncated_variance import TruncatedVarianceReduction
from botorch_risk.acquisition.truncated_variance.goals import Goal, LevelSetGoal, Sets
from botorch_risk.acquisition.truncated_variance.sampling import (
    Cost,
    Noise,
    NoiseLevels,
    SamplingTerms,
)
from botorch_risk.acquisition.truncated_variance.state import TruncatedVarianceState
from botorch_risk.arguments import check_arguments, check_fields
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.strategies.domain import ModelFactory, SampleDomain, Sampler
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.method import State, View
from botorch_risk.strategies.strategy import Strategy


@dataclass(frozen=True)
class TruncateVariance(Sampler):
    r"""Samples the points that shrink truncated variances most per cost.

    Algorithm 1, line 3, of [Bogunovic2016truvar]_.

    Args:
        goal: What is to be found.
        initial: Further arguments of `TruncatedVarianceState.initial`: `a`, `eta`, `r`, `slack`,
            `monotone`, `width`, `domain_size`.
        candidates: Which points may be sampled.
        weights: `|D|` weights of the points in the sum.
        anticipate: Whether to anticipate changes of the set.

    Raises:
        TypeError, ValueError: If an argument has the wrong type or a choice is unknown.

    Example:
        >>> import torch
        >>> from botorch_risk.acquisition import LevelSet
        >>> space = FiniteDomain(torch.linspace(0, 1, 30, dtype=torch.double).unsqueeze(-1))
        >>> method = SampleDomain(TruncateVariance(LevelSet(0.5)), SamplingTerms(noise=1e-4))
        >>> strategy = Strategy(space, method, seeds=0, num_initial=3)
        >>> for _ in range(8):
        ...     X = strategy.ask()
        ...     strategy.tell(X, X.clone())
        >>> known = strategy.classify()
        >>> known.high.sum(), known.low.sum(), known.unclassified.sum()
        (tensor(15), tensor(15), tensor(0))
    """

    goal: Goal
    initial: Mapping[str, Any] = field(default_factory=dict)
    candidates: Literal["domain", "unclassified"] = "domain"
    weights: Tensor | None = None
    anticipate: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        r"""Everything is possible."""
        return _tensors(self._initial(space.domain, num_replicates))

    def choose(self, view: View, terms: SamplingTerms) -> Tensor:
        r"""By greedy covering."""
        acquisition = TruncatedVarianceReduction(
            view.belief.posterior,
            self.restored(view.space.domain, view.state, view.round),
            previous=view.state["previous"],
            cost=terms.cost,
            noise=terms.noise,
            levels=terms.levels,
            candidates=self.candidates,
            weights=self.weights,
            anticipate=self.anticipate,
        )
        return acquisition.select(view.batch_size).X

    def learn(self, view: View, paid: Tensor) -> State:
        r"""The sets and the epoch after a round."""
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
    values = {each.name: getattr(state, each.name) for each in fields(state)}
    return {_PREFIX + name: value for name, value in values.items() if isinstance(value, Tensor)}


def truvar_state(strategy: Strategy) -> TruncatedVarianceState:
    r"""The sets, the epoch and the cost of each replicate of a `truvar` strategy.

    What Algorithm 2 of [Bogunovic2016truvar]_ updates.

    Raises:
        TypeError, ValueError: If an argument has the wrong type or a choice is unknown.
        UnsupportedError: If it is a strategy of another method.

    Example:
        >>> import torch
        >>> from botorch_risk.acquisition import Maximize
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
    **options: Any,
) -> Strategy:
    r"""TRUVAR, Algorithm 1 of [Bogunovic2016truvar]_, to maximise or for a level set.

    The answer to a level set is `strategy.classify()`: the points above and below the level, and
    the probabilities. `strategy.recommend()` is the point of highest posterior mean.

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
        estimator: Fits the model; `None` takes its hyperparameters as known.
        refit_every: After how many rounds the model is built again; `None` for never, which suits a
            model that is known.
        dense: Whether the posterior holds the covariance of the domain.
        num_initial: The number of random points at the start; a model that is fitted needs several.
        batch_size: The most points of a later round.
        options: Further arguments of `TruncateVariance`.

    Raises:
        BotorchTensorDimensionError: If the domain is not `|D| x d` with at least one point.
        InputDataError: If it is not finite.
        TypeError: If an argument has the wrong type.
        ValueError: If both a noise and levels are given, levels have no costs, or a number is out
            of its range.

    Example:
        >>> import torch
        >>> from botorch_risk.acquisition import Maximize
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
    sampler = TruncateVariance(goal, **options)
    method = SampleDomain(sampler, terms, model, estimator, refit_every, dense)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
