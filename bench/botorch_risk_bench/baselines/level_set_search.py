r"""Baselines of TRUVAR: scores for level sets on a finite domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_risk.acquisition.level_set import straddle
from botorch_risk.acquisition.truncated_variance.goals import LevelSet, LevelSetGoal, Sets
from botorch_risk.arguments import check_arguments, check_finite, check_nonnegative
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.marginals import Marginals
from botorch_risk.strategies.method import State, View
from botorch_risk.strategies.strategy import Strategy
from botorch_risk.strategies.truvar import FiniteDomain
from botorch_risk_bench.baselines.domain_search import Score, take_best

_SETS = ("unclassified", "high", "low")


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

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        threshold: The level h.
        beta: Squared width of the interval.
        options: Those of `take_best`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of its range.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> straddle_search(domain, [0, 1], noise=1e-4, threshold=0.5).ask().shape
        torch.Size([2, 1, 1])
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
        moments = Marginals(posterior.mean, posterior.variance)
        return straddle(moments, self.threshold, self.beta)

    def level_set(self, view: View) -> tuple[LevelSetGoal, Sets]:
        r"""What the present bounds classify: nothing is kept of earlier ones."""
        goal, mean = LevelSet(self.threshold), view.belief.posterior.mean
        nothing = torch.zeros_like(mean, dtype=torch.bool)
        return goal, goal.classify((~nothing, nothing, nothing), *self.bounds(view))

    def bounds(self, view: View) -> tuple[Tensor, Tensor]:
        r"""The confidence bounds, `R x |D|` each."""
        posterior = view.belief.posterior
        reach = (self.beta * posterior.variance).sqrt()
        return posterior.mean - reach, posterior.mean + reach


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

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        threshold: The level h.
        beta: Squared width of the interval.
        options: Those of `take_best`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of its range.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> gchk(domain, [0, 1], noise=1e-4, threshold=0.5).ask().shape
        torch.Size([2, 1, 1])
    """
    check_arguments(gchk, locals())
    return take_best(Unclassified(StraddleScore(threshold, beta)), domain, seeds, **options)


@dataclass(frozen=True)
class Unclassified(Score):
    r"""The straddle of points that are not classified; the state is the sets so far."""

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
        r"""What all bounds so far have classified."""
        unclassified, high, low = (view.state[name] for name in _SETS)
        return LevelSet(self.of.threshold), (unclassified, high, low)

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        r"""The straddle, minus infinity at points that are classified."""
        return self.of(view, posterior, noise).where(view.state["unclassified"], -torch.inf)


def maximum_variance_search(domain: Tensor, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""Uncertainty sampling, the paper's VAR: the point of largest posterior variance.

    Source: [Gotovos2013lse]_, as in [Bogunovic2016truvar]_, Appendix B.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        options: Those of `take_best`.

    Raises:
        ValueError: If a number is out of its range.

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
        return posterior.variance
