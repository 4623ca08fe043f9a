r"""What TRUVAR is compared with: scores of the points of a finite domain (its Appendix B)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.exceptions.errors import UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.acquisition.level_set import straddle
from botorch_risk.acquisition.log_expected_improvement import log_expected_improvement
from botorch_risk.acquisition.minimum_regret import expected_regret_reduction
from botorch_risk.acquisition.truncated_variance.goals import LevelSet
from botorch_risk.acquisition.truncated_variance.sampling import (
    Cost,
    Noise,
    NoiseLevels,
    SamplingTerms,
)
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.marginals import Marginals
from botorch_risk.strategies.domain import SampleDomain, Sampler
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.method import State, View
from botorch_risk.strategies.strategy import Strategy


class Score(ABC):
    r"""Values the points of a finite domain; the largest is sampled next."""

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        r"""What is to be kept beyond the data."""
        return {}

    def learn(self, view: View) -> State:
        r"""The state after a round."""
        return view.state

    @abstractmethod
    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""Scores of the domain, `R x |D|`; minus infinity where nothing is to be asked.

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
        r"""What the score keeps."""
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


def expected_improvement_search(
    domain: Tensor, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""Expected improvement over the best outcome so far, on its logarithm.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        options: Those of `take_best`.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> strategy = expected_improvement_search(domain, [0, 1], noise=1e-4, num_initial=3)
        >>> X = strategy.ask()
        >>> strategy.tell(X, (6 * X).sin())
        >>> strategy.ask().shape
        torch.Size([2, 1, 1])
    """
    return take_best(ExpectedImprovement(), domain, seeds, **options)


@dataclass(frozen=True)
class ExpectedImprovement(Score):
    r"""Variances that cannot be told from 0 by rounding count as 0."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The logarithm of the expected improvement."""
        variance = posterior.variance
        known = variance <= posterior.resolution.unsqueeze(-1)
        moments = Marginals(posterior.mean, variance.where(~known, 0.0))
        _, best = posterior.outcome_range
        return log_expected_improvement(moments, best.unsqueeze(-1))


def upper_confidence_bound_search(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    fraction: float = 0.2,
    delta: float = 0.1,
    **options: Any,
) -> Strategy:
    r"""GP-UCB with a fraction of the theory's width; see `TheoryBound`.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        fraction: Of the theory's squared width, > 0.
        delta: Probability, in (0, 1), that some bound fails; the paper gives none.
        options: Those of `take_best`.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> upper_confidence_bound_search(domain, [0, 1], noise=1e-4).ask().shape
        torch.Size([2, 1, 1])
    """
    return take_best(TheoryBound(fraction, delta), domain, seeds, **options)


@dataclass(frozen=True)
class TheoryBound(Score):
    r"""An upper confidence bound.

        score(x) = mean(x) + sqrt(beta_t) sigma(x)
        beta_t = fraction 2 log(|D| t^2 pi^2 / (6 delta))

    The width is that of Lemma C.1 of TRUVAR, where t counts the samples, this one included; the
    paper divides it by five. (It prints `beta_t sigma`, and means the square root.)

    Raises:
        ValueError: If `fraction` or `delta` is out of its range.
    """

    fraction: float = 0.2
    delta: float = 0.1

    def __post_init__(self) -> None:
        if not (0 < self.fraction < math.inf and 0 < self.delta < 1):
            raise ValueError(
                "Expected `fraction` > 0 and `delta` in (0, 1). "
                f"Got {self.fraction=}, {self.delta=}."
            )

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The bound."""
        t = posterior.num_samples.to(posterior.mean) + 1
        size = len(view.space.domain)
        theory = 2 * (t.square() * size * math.pi**2 / (6 * self.delta)).log()
        width = (self.fraction * theory).sqrt().unsqueeze(-1)
        return posterior.mean + width * posterior.variance.sqrt()


def minimum_regret_search(domain: Tensor, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""The least expected regret of the recommended point, one sample ahead.

    The score is `expected_regret_reduction`. Where no sample within six standard deviations of its
    mean changes the recommendation, so that all scores are 0, the point of largest variance is
    taken.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        options: Those of `take_best`.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> minimum_regret_search(domain, [0, 1], noise=1e-4).ask().shape
        torch.Size([2, 1, 1])
    """
    return take_best(RegretReduction(), domain, seeds, **options)


@dataclass(frozen=True)
class RegretReduction(Score):
    r"""The expected reduction of regret; the variance where that is 0 everywhere."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The reduction."""
        score = expected_regret_reduction(posterior, noise)
        decided = score.amax(dim=-1, keepdim=True) <= 0
        return score.where(~decided, posterior.variance)


def max_value_entropy_search(
    domain: Tensor, seeds: int | Sequence[int], *, batch_size: int = 1, **options: Any
) -> Strategy:
    r"""BoTorch's max-value entropy search, seed by seed, in the place of entropy search.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        batch_size: The number of points of a round, 1.
        options: Those of `take_best`.

    Raises:
        UnsupportedError: If `batch_size` is above 1.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> max_value_entropy_search(domain, [0, 1], noise=1e-4).ask().shape
        torch.Size([2, 1, 1])
    """
    if batch_size > 1:
        raise UnsupportedError(f"Expected a `batch_size` of 1. Got {batch_size}.")
    return take_best(MaxValueEntropy(), domain, seeds, **options)


@dataclass(frozen=True)
class MaxValueEntropy(Score):
    r"""`qMaxValueEntropy` over the domain, of a model of each replicate that is not batched."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The information about the maximum."""
        scores, domain = [], view.space.domain
        for row, stream in enumerate(view.history.streams("acquisition")):
            model = view.method.model_of(view, row)  # type: ignore[attr-defined]
            with manual_seed(stream % 2**31), torch.no_grad():
                acqf = qMaxValueEntropy(model, domain)
                parts = [acqf(X) for X in domain.unsqueeze(-2).split(2**9)]
            scores.append(torch.cat(parts))
        return torch.stack(scores)


def straddle_search(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    threshold: float,
    beta: float = 1.96**2,
    **options: Any,
) -> Strategy:
    r"""The straddle heuristic for a level set.

        score(x) = sqrt(beta) sigma(x) - |mean(x) - h|

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        threshold: The level h.
        beta: Squared width of the interval.
        options: Those of `take_best`.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> straddle_search(domain, [0, 1], noise=1e-4, threshold=0.5).ask().shape
        torch.Size([2, 1, 1])
    """
    return take_best(StraddleScore(threshold, beta), domain, seeds, **options)


@dataclass(frozen=True)
class StraddleScore(Score):
    r"""The straddle of a threshold."""

    threshold: float
    beta: float = 1.96**2

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The straddle."""
        moments = Marginals(posterior.mean, posterior.variance)
        return straddle(moments, self.threshold, self.beta)


def gchk(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    threshold: float,
    beta: float = 9.0,
    **options: Any,
) -> Strategy:
    r"""The algorithm of Gotovos, Casati, Hitz and Krause: the most ambiguous unclassified point.

    The straddle with `sqrt(beta) = 3`, over the points that no bounds so far have classified; a
    replicate without such points asks for nothing.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        threshold: The level h.
        beta: Squared width of the interval.
        options: Those of `take_best`.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> gchk(domain, [0, 1], noise=1e-4, threshold=0.5).ask().shape
        torch.Size([2, 1, 1])
    """
    return take_best(Unclassified(StraddleScore(threshold, beta)), domain, seeds, **options)


@dataclass(frozen=True)
class Unclassified(Score):
    r"""The straddle of points that are not classified; the state is the sets so far."""

    of: StraddleScore

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        r"""No point is classified."""
        every = torch.ones(
            num_replicates, len(space.domain), dtype=torch.bool, device=space.domain.device
        )
        return {"unclassified": every, "high": ~every, "low": ~every}

    def learn(self, view: View) -> State:
        r"""Classifies by the bounds of this round."""
        posterior = view.belief.posterior
        reach = (self.of.beta * posterior.variance).sqrt()
        before = tuple(view.state[name] for name in ("unclassified", "high", "low"))
        mean = posterior.mean
        goal = LevelSet(self.of.threshold)
        sets = goal.classify(before, mean - reach, mean + reach)  # type: ignore[arg-type]
        return {**view.state, **dict(zip(("unclassified", "high", "low"), sets, strict=True))}

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The straddle, minus infinity at points that are classified."""
        return self.of(view, posterior, noise).where(view.state["unclassified"], -torch.inf)


def maximum_variance_search(domain: Tensor, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""Uncertainty sampling, the paper's VAR: the point of largest posterior variance.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        options: Those of `take_best`.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> maximum_variance_search(domain, [0, 1], noise=1e-4).ask().shape
        torch.Size([2, 1, 1])
    """
    return take_best(Variance(), domain, seeds, **options)


@dataclass(frozen=True)
class Variance(Score):
    r"""The posterior variance."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The variance."""
        return posterior.variance
