r"""Baselines of TRUVAR: scores for the maximum over a finite domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.exceptions.errors import UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts, check_positive, check_probability
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.marginals import Marginals
from botorch_risk.repeats.log_expected_improvement import log_expected_improvement
from botorch_risk.strategies.method import View
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.domain_search import Score, take_best
from botorch_risk_bench.baselines.minimum_regret import expected_regret_reduction


def expected_improvement_search(
    domain: Tensor, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""Expected improvement over the best outcome so far, on its logarithm.

    Source: [Jones1998ego]_; a baseline of [Bogunovic2016truvar]_, Appendix B.

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
    r"""Expected improvement, where a variance that is 0 up to rounding counts as 0."""

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

    The width is from Lemma C.1 of [Bogunovic2016truvar]_, after [Srinivas2010gpucb]_.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        fraction: Of the theory's squared width, > 0.
        delta: Probability, in (0, 1), that some bound fails; the paper gives none.
        options: Those of `take_best`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `fraction` is not positive and finite, or `delta` outside (0, 1).

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> upper_confidence_bound_search(domain, [0, 1], noise=1e-4).ask().shape
        torch.Size([2, 1, 1])
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

    Raises:
        ValueError: If `fraction` or `delta` is out of its range.
    """

    fraction: float = 0.2
    delta: float = 0.1

    def __post_init__(self) -> None:
        check_positive(fraction=self.fraction)
        check_probability(delta=self.delta)

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
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

    Source: [Metzen2016mrs]_.

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
        score = expected_regret_reduction(posterior, noise)
        decided = score.amax(dim=-1, keepdim=True) <= 0
        return score.where(~decided, posterior.variance)


def max_value_entropy_search(
    domain: Tensor, seeds: int | Sequence[int], *, batch_size: int = 1, **options: Any
) -> Strategy:
    r"""BoTorch's max-value entropy search, seed by seed, in the place of entropy search.

    Source: [Wang2017mes]_.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        batch_size: The number of points of a round, 1.
        options: Those of `take_best`.

    Raises:
        TypeError: If an argument has the wrong type.
        UnsupportedError: If `batch_size` is above 1.
        ValueError: If it is below 1.

    Example:
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> max_value_entropy_search(domain, [0, 1], noise=1e-4).ask().shape
        torch.Size([2, 1, 1])
    """
    check_arguments(max_value_entropy_search, locals())
    check_counts(batch_size=batch_size)
    if batch_size > 1:
        raise UnsupportedError(f"Expected a `batch_size` of 1. Got {batch_size}.")
    return take_best(MaxValueEntropy(), domain, seeds, **options)


@dataclass(frozen=True)
class MaxValueEntropy(Score):
    r"""`qMaxValueEntropy` over the domain, of a model of each replicate that is not batched."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        scores, domain = [], view.space.domain
        for row, stream in enumerate(view.history.streams("acquisition")):
            model = view.method.model_of(view, row)  # type: ignore[attr-defined]
            with manual_seed(stream % 2**31), torch.no_grad():
                acqf = qMaxValueEntropy(model, domain)
                parts = [acqf(X) for X in domain.unsqueeze(-2).split(2**9)]
            scores.append(torch.cat(parts))
        return torch.stack(scores)
