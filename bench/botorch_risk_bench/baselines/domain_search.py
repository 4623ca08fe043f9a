r"""Baselines of TRUVAR: searches by a score of the points of a finite domain (its Appendix B)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.arguments import (
    check_arguments,
    check_finite,
    check_nonnegative,
    check_positive,
    check_probability,
)
from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import DomainPosterior, PointwiseAcquisition
from botorch_risk.level_sets.outcome_straddle import straddle
from botorch_risk.papers.truvar.covering import top_candidates
from botorch_risk.papers.truvar.gain import inverse_variance
from botorch_risk.papers.truvar.goals import LevelSet, LevelSetGoal, Sets
from botorch_risk.papers.truvar.sample_domain import SampleDomain, Sampler
from botorch_risk.papers.truvar.sampling import Cost, Noise, NoiseLevels, SamplingTerms
from botorch_risk.repeats.rank_one_gain import log_expected_improvement
from botorch_risk.strategies.finite_domain import FiniteDomain, maximize_between
from botorch_risk.strategies.method import State, View
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


class Score(ABC):
    r"""Scores the points of a finite domain; the largest score is sampled next."""

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        return {}

    def learn(self, view: View) -> State:
        return view.state

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets] | None:
        r"""The target level and the sets so far, `R x |D|` each; None without a target level."""
        return None

    @abstractmethod
    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""Score the domain, `R x |D|`; minus infinity excludes a point.

        Args:
            posterior: That of the view, or given the points of the batch that were chosen before.
            noise: Noise variances of a sample, `R x |D|`.
        """

    def anywhere(
        self, view: View, posterior: DomainPosterior, noise: Tensor
    ) -> PointwiseAcquisition:
        r"""The score at any points of the box round the domain.

        Raises:
            UnsupportedError: If it has no form there.
        """
        raise UnsupportedError(
            f"Expected a score of any points. Got {type(self).__name__}, of the domain alone."
        )

    def best_anywhere(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The best point of the box round the domain, `R x 1 x d`."""
        seeds, acquisition = view.history.streams("acquisition"), self.anywhere
        on_domain = self(view, posterior, noise)
        found, _ = maximize_between(
            acquisition(view, posterior, noise), on_domain, view.space, seeds
        )
        return found


@dataclass(frozen=True)
class ScoreOfMoments:
    r"""A score of the moments of any points."""

    posterior: DomainPosterior
    score: Callable[[Tensor, Tensor], Tensor]

    def evaluate(self, X: Tensor) -> Tensor:
        at = self.posterior.at(X)
        # Not 0, where a root has no gradient.
        resolution = self.posterior.resolution.reshape(-1, 1)
        return self.score(at.mean, at.variance.maximum(resolution))


@dataclass(frozen=True)
class TakeBest(Sampler):
    r"""Samples the point of the domain with the largest score.

    Points of a batch see the ones before them as hallucinated outcomes. Where there are noise
    levels, all samples are taken at the initial one. Costs are paid, and have no part in the score.

    Args:
        score: The score of the points.
        anywhere: Whether to sample between the points of the domain too, in the box round it,
            one point a round.
    """

    score: Score
    anywhere: bool = False

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        return self.score.start(space, num_replicates)

    def choose(self, view: View, terms: SamplingTerms) -> Tensor:
        r"""The best points, one after the other."""
        posterior, picks, space = view.belief.posterior, [], view.space
        if self.anywhere:
            if view.batch_size > 1:
                raise UnsupportedError(f"Expected one point a round. Got {view.batch_size}.")
            noise = terms.domain_noise(posterior)[..., 0]
            return self.score.best_anywhere(view, posterior, noise)
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
    anywhere: bool = False,
    **options: Any,
) -> Strategy:
    r"""A strategy that samples the point of the largest score.

    Args:
        domain: `|D| x d` points.
        noise: The known noise variance of an outcome; inferred by the model if `None`.
        levels: Noise levels, of which `initial_level` alone is used.
        cost: What a sample costs.
        initial_level: The noise level of all points.
        batch_size: The maximum number of points in a later round.
        anywhere: Whether samples and recommendations may lie between the points of the domain.
        options: Further arguments of `SampleDomain`: `model`, `estimator`, `refit_every`, `dense`.
    """
    terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
    space = FiniteDomain(domain, None if levels is None else len(levels), initial_level)
    options = {"classes": "epochs", **options}  # a heuristic's own, by its bounds
    method = SampleDomain(TakeBest(score, anywhere), terms, anywhere=anywhere, **options)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


# The next outcome, in standard deviations from its mean: an equidistant rule for a normal
# distribution.
_REACH, _NUM_OUTCOMES = 6.0, 49
NUM_RECOMMENDED = 100  # points of the domain, of which one will be
# Means after an outcome that are held at once.
_CHUNK_ENTRIES = ChunkSize(cpu=2**16)


def expected_regret_reduction(
    posterior: DomainPosterior, noise: Tensor, num_recommended: int = NUM_RECOMMENDED
) -> Tensor:
    r"""By how much a sample at each point reduces the expected regret of the recommended point.

        score(x) = regret - E_y[ regret | x, y ],   regret = E[ max f - f(x*) ]
                 = E_y[ max_{x'} mean(x' | x, y) ] - max_{x'} mean(x')

    where `x*` is the point with the highest posterior mean, the one that is recommended. The
    expected maximum of f is the same before and after the sample, and drops out: what is left of
    the minimum regret of a recommended point [Metzen2016mrs]_ is the knowledge gradient. There is
    nothing to draw from the posterior, and y is integrated numerically over 6 standard deviations
    either side.

    Args:
        noise: `R x |D|` noise variances of the next sample, for `R` replicates (1 if the posterior
            has no batch shape).
        num_recommended: Points `x'` that may be recommended: those with the largest
            `mean + 2 sigma`.

    Returns:
        `batch_shape x |D|` scores >= 0; 0 where the outcome is known already.
    """
    R, size = noise.shape
    mask = top_candidates(posterior, min(num_recommended, size)).reshape(R, size)
    columns = mask.nonzero()[:, 1].reshape(R, -1)  # R x c
    mean = posterior.mean.reshape(R, size)
    # A sample of a point that is known without noise has no effect: its slope is 0, not 0 / 0.
    precision = inverse_variance(posterior.variance.reshape(R, size) + noise, posterior)
    # How the means of recommendable points move with y, R x |D| x c.
    every = slice(None)
    covariance = posterior.covariance_between(None, columns)(every, every, every)
    slope = covariance * precision.sqrt().unsqueeze(-1)
    height, best = mean.gather(-1, columns).sort(dim=-1, descending=True, stable=True)
    slope = slope.gather(-1, best.unsqueeze(-2).expand_as(slope))
    behind = (height - height[:, :1]).unsqueeze(-2)  # R x 1 x c, 0 for the present recommendation
    ahead = slope - slope[..., :1]
    outcomes = torch.linspace(-_REACH, _REACH, _NUM_OUTCOMES, dtype=mean.dtype)
    weights = torch.exp(-0.5 * outcomes.square()) / math.sqrt(2 * math.pi)
    weights = weights / weights.sum()
    score = torch.zeros_like(mean)
    rows = _CHUNK_ENTRIES.rows(mean.device, columns.shape[-1])
    for r, heights in enumerate(behind):  # one replicate at a time, in a core's cache
        for total, slopes in zip(score[r].split(rows), ahead[r].split(rows), strict=True):
            means = torch.empty_like(slopes)
            for z, weight in zip(outcomes.tolist(), weights.tolist(), strict=True):
                total += weight * torch.add(heights, slopes, alpha=z, out=means).amax(dim=-1)
    return score.reshape(*posterior.batch_shape, size)


@documented("noise=1e-4, num_initial=4", 1, options="Further arguments of `take_best`.")
def expected_improvement_search(
    domain: Tensor, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""Expected improvement over the best outcome so far, on its logarithm.

    Source: [Jones1998ego]_; a baseline of [Bogunovic2016truvar]_, Appendix B.
    """
    return take_best(ExpectedImprovement(), domain, seeds, **options)


@dataclass(frozen=True)
class ExpectedImprovement(Score):
    r"""Expected improvement, where a variance that is 0 up to rounding counts as 0."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        variance = posterior.variance
        known = variance <= posterior.resolution.unsqueeze(-1)
        _, best = posterior.outcome_range
        variance = variance.where(~known, 0.0)
        return log_expected_improvement(posterior.mean, variance, best.unsqueeze(-1))

    def anywhere(self, view: View, posterior: DomainPosterior, noise: Tensor) -> ScoreOfMoments:
        best = posterior.outcome_range[1].unsqueeze(-1)
        return ScoreOfMoments(
            posterior, lambda mean, variance: log_expected_improvement(mean, variance, best)
        )


@documented(
    "noise=1e-4, num_initial=4",
    1,
    fraction="Of the theory's squared width, > 0.",
    delta="Probability, in (0, 1), that some bound fails; the paper gives none.",
    options="Further arguments of `take_best`.",
)
def upper_confidence_bound_search(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    fraction: float = 0.2,
    delta: float = 0.1,
    **options: Any,
) -> Strategy:
    r"""GP-UCB with a fraction of the theory's width; see `TheoryBound`.

    The width is from Lemma C.1 of [Bogunovic2016truvar]_, after [Srinivas2010gpucb]_.
    """
    check_arguments(upper_confidence_bound_search, locals())
    return take_best(TheoryBound(fraction, delta), domain, seeds, **options)


@dataclass(frozen=True)
class TheoryBound(Score):
    r"""An upper confidence bound.

        score(x) = mean(x) + sqrt(beta_t) sigma(x)
        beta_t = fraction 2 log(|D| t^2 pi^2 / (6 delta))

    The width is from Lemma C.1 of TRUVAR, where t counts the samples, this one included; the
    paper divides it by five. (It prints `beta_t sigma`, and means the square root.)
    """

    fraction: float = 0.2
    delta: float = 0.1

    def __post_init__(self) -> None:
        check_positive(fraction=self.fraction)
        check_probability(delta=self.delta)

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        return posterior.mean + self._width(view, posterior) * posterior.variance.sqrt()

    def anywhere(self, view: View, posterior: DomainPosterior, noise: Tensor) -> ScoreOfMoments:
        width = self._width(view, posterior)
        return ScoreOfMoments(posterior, lambda mean, variance: mean + width * variance.sqrt())

    def _width(self, view: View, posterior: DomainPosterior) -> Tensor:
        r"""The factor of the standard deviation, `R x 1`."""
        t = posterior.num_samples.to(posterior.mean) + 1
        size = len(view.space.domain)
        theory = 2 * (t.square() * size * math.pi**2 / (6 * self.delta)).log()
        return (self.fraction * theory).sqrt().unsqueeze(-1)


@documented("noise=1e-4, num_initial=4", 1, options="Further arguments of `take_best`.")
def minimum_regret_search(domain: Tensor, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""The least expected regret of the recommended point, one sample ahead.

    The score is `expected_regret_reduction`. Where no sample within six standard deviations of its
    mean changes the recommendation, so that all scores are 0, the point of largest variance is
    taken.

    Source: [Metzen2016mrs]_.
    """
    return take_best(RegretReduction(), domain, seeds, **options)


@dataclass(frozen=True)
class RegretReduction(Score):
    r"""The expected reduction of regret; the variance where that is 0 everywhere."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        score = expected_regret_reduction(posterior, noise)
        decided = score.amax(dim=-1, keepdim=True) <= 0
        return score.where(~decided, posterior.variance)

    def anywhere(
        self, view: View, posterior: DomainPosterior, noise: Tensor
    ) -> RegretReductionAnywhere:
        decided = expected_regret_reduction(posterior, noise).amax(dim=-1, keepdim=True) <= 0
        size = posterior.domain.shape[-2]
        mask = top_candidates(posterior, min(NUM_RECOMMENDED, size)).reshape(-1, size)
        columns = mask.nonzero()[:, 1].reshape(len(noise), -1)
        return RegretReductionAnywhere(posterior, noise[..., :1], columns, decided)


@dataclass(frozen=True)
class RegretReductionAnywhere:
    r"""The same of samples at any points, where the recommended points stay on the domain.

    Attributes:
        posterior: The posterior of `R` replicates.
        noise: `R x 1` noise variances of a sample.
        columns: `R x c` points that may be recommended.
        decided: `R x 1`, where the variance is the score.
    """

    posterior: DomainPosterior
    noise: Tensor
    columns: Tensor
    decided: Tensor

    def evaluate(self, X: Tensor) -> Tensor:
        at, those = self.posterior.at(X), self.posterior.points(self.columns)
        precision = inverse_variance(at.variance + self.noise, self.posterior)
        covariance = self.posterior.cross_covariance(at, those)
        slope = covariance * precision.sqrt().unsqueeze(-1)  # R x m x c
        outcomes = torch.linspace(-_REACH, _REACH, _NUM_OUTCOMES, dtype=slope.dtype)
        weights = torch.exp(-0.5 * outcomes.square())
        means = (those.mean.unsqueeze(-2) + z * slope for z in outcomes)
        largest = torch.stack([each.amax(dim=-1) for each in means], dim=-1)
        expected = (largest * weights).sum(dim=-1) / weights.sum()
        gain = expected - those.mean.amax(dim=-1, keepdim=True)
        return gain.where(~self.decided, at.variance)


_SETS = ("unclassified", "high", "low")


@documented(
    "noise=1e-4, threshold=0.5, num_initial=4", 1, options="Further arguments of `take_best`."
)
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

    Source: [Bryan2008straddle]_; a baseline of [Bogunovic2016truvar]_, Appendix B.
    """
    check_arguments(straddle_search, locals())
    return take_best(StraddleScore(threshold, beta), domain, seeds, **options)


@dataclass(frozen=True)
class StraddleScore(Score):
    r"""The straddle of a threshold."""

    threshold: float
    beta: float = 1.96**2

    def __post_init__(self) -> None:
        check_finite(threshold=self.threshold)
        check_nonnegative(beta=self.beta)

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        return straddle(posterior.mean, posterior.variance, self.threshold, self.beta)

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets]:
        r"""Classify by the present bounds only."""
        goal, mean = LevelSet(self.threshold), view.belief.posterior.mean
        nothing = torch.zeros_like(mean, dtype=torch.bool)
        return goal, goal.classify((~nothing, nothing, nothing), *self.bounds(view))

    def bounds(self, view: View) -> tuple[Tensor, Tensor]:
        posterior = view.belief.posterior
        reach = (self.beta * posterior.variance).sqrt()
        return posterior.mean - reach, posterior.mean + reach


@documented(
    "noise=1e-4, threshold=0.5, num_initial=4", 1, options="Further arguments of `take_best`."
)
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

    Source: [Gotovos2013lse]_, as in [Bogunovic2016truvar]_, Appendix B.
    """
    check_arguments(gchk, locals())
    return take_best(Unclassified(StraddleScore(threshold, beta)), domain, seeds, **options)


@dataclass(frozen=True)
class Unclassified(Score):
    r"""The straddle of unclassified points; the state holds the sets so far."""

    of: StraddleScore

    def start(self, space: FiniteDomain, num_replicates: int) -> State:
        every = torch.ones(
            num_replicates, len(space.domain), dtype=torch.bool, device=space.domain.device
        )
        return dict(zip(_SETS, (every, ~every, ~every), strict=True))

    def learn(self, view: View) -> State:
        r"""Classifies by the bounds of this round."""
        goal, before = self.level_set(view)
        sets = goal.classify(before, *self.of.bounds(view))
        return {**view.state, **dict(zip(_SETS, sets, strict=True))}

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets]:
        r"""Classify by all bounds so far."""
        unclassified, high, low = (view.state[name] for name in _SETS)
        return LevelSet(self.of.threshold), (unclassified, high, low)

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The straddle, minus infinity at points that are classified."""
        return self.of(view, posterior, noise).where(view.state["unclassified"], -torch.inf)


@documented("noise=1e-4, num_initial=4", 1, options="Further arguments of `take_best`.")
def maximum_variance_search(domain: Tensor, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""Uncertainty sampling, the paper's VAR: the point of largest posterior variance.

    Source: [Gotovos2013lse]_, as in [Bogunovic2016truvar]_, Appendix B.
    """
    return take_best(Variance(), domain, seeds, **options)


@dataclass(frozen=True)
class Variance(Score):
    r"""The posterior variance."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        return posterior.variance
