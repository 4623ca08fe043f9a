r"""Heuristics for level sets on a finite domain (Bogunovic et al. 2016, App. B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from botorch_risk.acquisition.confidence_sets import Sets, classify
from botorch_risk.acquisition.level_set import straddle
from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.marginals import Marginals
from botorch_risk.strategies.domain_search import DomainSearch
from botorch_risk.strategies.finite_domain import ModelBuilder


class LevelSetSearch(DomainSearch):
    r"""Samples the point of the domain with the largest straddle.

        score(x) = sqrt(beta) sigma(x) - |mean(x) - h|

    With `beta = 1.96^2`, the default, this is the straddle heuristic.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> strategy = LevelSetSearch(domain, [0, 1], SingleTaskGP, 0.5, noise=1e-4, num_initial=3)
        >>> X = strategy.ask()
        >>> strategy.tell(X, (6 * X).sin())
        >>> strategy.ask().shape
        torch.Size([2, 1, 1])
    """

    def __init__(
        self,
        domain: Tensor,
        seeds: int | Sequence[int],
        build_model: ModelBuilder,
        threshold: float,
        *,
        beta: float = 1.96**2,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            domain: `|D| x d` points.
            seeds: One seed per replicate.
            build_model: As in `FiniteDomainStrategy`.
            threshold: The level h.
            beta: Squared width of the interval.
            options: Further arguments of `FiniteDomainStrategy`. Of noise levels it uses
                `initial_level` alone.
        """
        super().__init__(domain, seeds, build_model, **options)
        self.threshold, self.beta = threshold, beta

    def _score(self, posterior: DomainPosterior) -> Tensor:
        return straddle(Marginals(posterior.mean, posterior.variance), self.threshold, self.beta)


class GCHK(LevelSetSearch):
    r"""The algorithm of Gotovos, Casati, Hitz and Krause: the most ambiguous unclassified point.

    The straddle with `sqrt(beta) = 3`, over the points that no bounds so far have classified;
    a replicate without such points asks for nothing.
    """

    def __init__(
        self,
        domain: Tensor,
        seeds: int | Sequence[int],
        build_model: ModelBuilder,
        threshold: float,
        *,
        beta: float = 9.0,
        **options: Any,
    ) -> None:
        r"""Builds the strategy; the arguments are those of `LevelSetSearch`."""
        super().__init__(domain, seeds, build_model, threshold, beta=beta, **options)
        every = torch.ones(len(self.seeds), len(domain), dtype=torch.bool, device=domain.device)
        self.sets: Sets = (every, ~every, ~every)

    def state_dict(self) -> dict[str, Any]:
        r"""The data and the sets."""
        return {**super().state_dict(), "sets": self.sets}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments."""
        super().load_state_dict(state)
        unclassified, high, low = state["sets"]
        self.sets = unclassified, high, low

    def _learn(self, paid: Tensor) -> None:
        reach = (self.beta * self.posterior.variance).sqrt()
        mean = self.posterior.mean
        self.sets = classify(self.sets, mean - reach, mean + reach, self.threshold)

    def _score(self, posterior: DomainPosterior) -> Tensor:
        return super()._score(posterior).where(self.sets[0], -torch.inf)


class MaximumVarianceSearch(LevelSetSearch):
    r"""Uncertainty sampling, the paper's VAR: the point of largest posterior variance."""

    def _score(self, posterior: DomainPosterior) -> Tensor:
        return posterior.variance
