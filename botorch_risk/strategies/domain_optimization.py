r"""Rivals of TRUVAR for the maximum over a finite domain (Bogunovic et al. 2016, App. B)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.exceptions.errors import UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.acquisition.log_expected_improvement import log_expected_improvement
from botorch_risk.acquisition.minimum_regret import expected_regret_reduction
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.marginals import Marginals
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.domain_search import DomainSearch
from botorch_risk.strategies.finite_domain import ModelBuilder


class ExpectedImprovementSearch(DomainSearch):
    r"""Expected improvement over the best outcome so far, on its logarithm.

    Variances that cannot be told from 0 by rounding count as 0. The arguments are those of
    `FiniteDomainStrategy`.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> strategy = ExpectedImprovementSearch(
        ...     domain, [0, 1], SingleTaskGP, noise=1e-4, num_initial=3
        ... )
        >>> X = strategy.ask()
        >>> strategy.tell(X, (6 * X).sin())
        >>> strategy.ask().shape
        torch.Size([2, 1, 1])
    """

    def _score(self, posterior: DomainPosterior) -> Tensor:
        variance = posterior.variance
        known = variance <= posterior.resolution.unsqueeze(-1)
        moments = Marginals(posterior.mean, variance.where(~known, 0.0))
        _, best = posterior.outcome_range
        return log_expected_improvement(moments, best.unsqueeze(-1))


class UpperConfidenceBoundSearch(DomainSearch):
    r"""GP-UCB with a fraction of the theory's width.

        score(x) = mean(x) + sqrt(beta_t) sigma(x)
        beta_t = fraction 2 log(|D| t^2 pi^2 / (6 delta))

    The width is that of Lemma C.1 of TRUVAR, where t counts the samples, this one included; the
    paper divides it by five. (It prints `beta_t sigma`, and means the square root.)
    """

    def __init__(
        self,
        domain: Tensor,
        seeds: int | Sequence[int],
        build_model: ModelBuilder,
        *,
        fraction: float = 0.2,
        delta: float = 0.1,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            domain: `|D| x d` points.
            seeds: One seed per replicate.
            build_model: As in `FiniteDomainStrategy`.
            fraction: Of the theory's squared width, > 0.
            delta: Probability, in (0, 1), that some bound fails; the paper gives none.
            options: Further arguments of `FiniteDomainStrategy`.

        Raises:
            ValueError: If `fraction` or `delta` is out of its range.
        """
        if not (0 < fraction < math.inf and 0 < delta < 1):
            raise ValueError(
                f"Expected `fraction` > 0 and `delta` in (0, 1). Got {fraction=}, {delta=}."
            )
        super().__init__(domain, seeds, build_model, **options)
        self.fraction, self.delta = fraction, delta

    def _score(self, posterior: DomainPosterior) -> Tensor:
        t = posterior.num_samples.to(posterior.mean) + 1
        theory = 2 * (t.square() * len(self.domain) * math.pi**2 / (6 * self.delta)).log()
        width = (self.fraction * theory).sqrt().unsqueeze(-1)
        return posterior.mean + width * posterior.variance.sqrt()


class MinimumRegretSearch(DomainSearch):
    r"""The least expected regret of the recommended point, one sample ahead.

    The score is `expected_regret_reduction`. Where no sample within six standard deviations of its
    mean changes the recommendation, so that all scores are 0, the point of largest variance is
    taken. The arguments are those of `FiniteDomainStrategy`.
    """

    def _score(self, posterior: DomainPosterior) -> Tensor:
        index = torch.arange(len(self.domain), device=self.domain.device)
        noise = self.terms.noise_at(self.domain, posterior, index)[..., self.initial_level]
        score = expected_regret_reduction(posterior, noise)
        decided = score.amax(dim=-1, keepdim=True) <= 0
        return score.where(~decided, posterior.variance)


class MaxValueEntropySearch(DomainSearch):
    r"""BoTorch's max-value entropy search, seed by seed, in the place of entropy search.

    Each seed has an unbatched model of all its data, from `build_model` with `n x d` points,
    and its own `qMaxValueEntropy` over the domain: nothing here is batched over replicates.
    """

    def __init__(
        self,
        domain: Tensor,
        seeds: int | Sequence[int],
        build_model: ModelBuilder,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            domain: `|D| x d` points.
            seeds: One seed per replicate.
            build_model: As in `FiniteDomainStrategy`, and for points `n x d`.
            options: Further arguments of `FiniteDomainStrategy`, with a `batch_size` of 1.

        Raises:
            UnsupportedError: If `batch_size` is above 1.
        """
        super().__init__(domain, seeds, build_model, **options)
        if self.batch_size > 1:
            raise UnsupportedError(f"Expected a `batch_size` of 1. Got {self.batch_size}.")

    def _score(self, posterior: DomainPosterior) -> Tensor:
        place, y, noise = self._samples(0)
        scores = []
        for row, seed in enumerate(self.seeds):
            told = ~y[row].isnan()
            variance = None if noise is None else noise[row, told].unsqueeze(-1)
            X = self.domain[place[row, told]]
            model = self.build_model(X, y[row, told].unsqueeze(-1), variance)
            stream = derive_seed(seed, "acquisition", self._round) % 2**31
            with manual_seed(stream), torch.no_grad():
                acqf = qMaxValueEntropy(model, self.domain)
                parts = [acqf(X) for X in self.domain.unsqueeze(-2).split(2**9)]
            scores.append(torch.cat(parts))
        return torch.stack(scores)
