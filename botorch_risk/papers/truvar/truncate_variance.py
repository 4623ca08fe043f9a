r"""The sampler of TRUVAR, and its sets in the state of a strategy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers.truvar.acquisition import TruncatedVarianceReduction
from botorch_risk.papers.truvar.covering import checked_weights, top_candidates
from botorch_risk.papers.truvar.goals import Goal, LevelSetGoal, Sets
from botorch_risk.papers.truvar.sample_domain import Sampler
from botorch_risk.papers.truvar.sampling import SamplingTerms
from botorch_risk.papers.truvar.state import TruncatedVarianceState
from botorch_risk.strategies.finite_domain import FiniteDomain, maximize_between
from botorch_risk.strategies.method import State, View


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
        prefilter: The maximum number of candidates: those with the largest upper confidence bounds
            are kept (Appendix A). Default: all.
        anywhere: Whether to sample between the points of the domain too, in the box round it,
            where the acquisition function is maximised from its best points. The sum is still over
            the domain, whose points represent a continuous one (Appendix A, "Continuous domains").

    Raises:
        UnsupportedError: By `ask`, if there are noise levels and samples are taken anywhere.
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
