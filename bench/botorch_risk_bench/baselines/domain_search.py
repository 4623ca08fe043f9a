r"""Baselines of TRUVAR: scores of the points of a finite domain (its Appendix B)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_risk.acquisition.truncated_variance.goals import LevelSetGoal, Sets
from botorch_risk.acquisition.truncated_variance.sampling import (
    Cost,
    Noise,
    NoiseLevels,
    SamplingTerms,
)
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.strategies.method import State, View
from botorch_risk.strategies.strategy import Strategy
from botorch_risk.strategies.truvar import FiniteDomain, SampleDomain, Sampler


class Score(ABC):
    r"""Values the points of a finite domain; the largest is sampled next."""

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        r"""What is to be kept beyond the data."""
        return {}

    def learn(self, view: View) -> State:
        r"""The state after a round."""
        return view.state

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets] | None:
        r"""The level that is sought and the sets so far, `R x |D|` each; None if none is sought."""
        return None

    @abstractmethod
    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""Scores of the domain, `R x |D|`; minus infinity where nothing is to be sampled.

        Args:
            view: What is known.
            posterior: That of the view, or given the points of the batch that were chosen before.
            noise: Noise variances of a sample, `R x |D|`.
        """


@dataclass(frozen=True)
class TakeBest(Sampler):
    r"""Samples the point of the domain with the largest score.

    Points of a batch see the ones before them as hallucinated outcomes. Where there are noise
    levels, all samples are taken at the initial one. Costs are paid, and have no part in the score.
    """

    score: Score

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        return self.score.start(space, num_replicates)

    def choose(self, view: View, terms: SamplingTerms) -> Tensor:
        r"""The best points, one after the other."""
        posterior, picks, space = view.belief.posterior, [], view.space
        for pick in range(view.batch_size):
            noise = terms.domain_noise(posterior)[..., space.initial_level]
            value, index = self.score(view, posterior, noise).max(dim=-1)
            asked = space.domain[index]
            if pick + 1 < view.batch_size:
                posterior = posterior.copy()
                its_noise = noise.gather(-1, index.unsqueeze(-1)).squeeze(-1)
                posterior.hallucinate(asked, its_noise, index=index)
            level = torch.full_like(index, space.initial_level, dtype=asked.dtype)
            asked = space.at_level(asked, level)
            picks.append(asked.where((value > -torch.inf).unsqueeze(-1), torch.nan))
        return torch.stack(picks, dim=-2)

    def learn(self, view: View, paid: Tensor) -> State:
        r"""What the score keeps of the round."""
        return self.score.learn(view)

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets] | None:
        return self.score.level_set(view)


def take_best(
    score: Score,
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    noise: Noise | None = None,
    levels: NoiseLevels | None = None,
    cost: Cost | None = None,
    initial_level: int = 0,
    num_initial: int = 1,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""A strategy that samples the point of the largest score.

    Args:
        score: Values the points.
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        noise: The known noise variance of an outcome; inferred by the model if `None`.
        levels: Noise levels, of which `initial_level` alone is used.
        cost: What a sample costs.
        initial_level: The noise level of all points.
        num_initial: The number of random points at the start.
        batch_size: The most points of a later round.
        options: Further arguments of `SampleDomain`: `model`, `estimator`, `refit_every`, `dense`.
    """
    terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
    space = FiniteDomain(domain, None if levels is None else len(levels), initial_level)
    method = SampleDomain(TakeBest(score), terms, **options)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
