r"""Strategies that score every point of a finite domain by the posterior and take the best."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.strategies.finite_domain import FiniteDomainStrategy


class DomainSearch(FiniteDomainStrategy):
    r"""Samples the point of the domain with the largest score.

    Points of a batch see the ones before them as hallucinated outcomes. Where there are noise
    levels, all samples are taken at `initial_level`. Costs are paid, and have no part in the
    score. The arguments are those of `FiniteDomainStrategy`.
    """

    @abstractmethod
    def _score(self, posterior: DomainPosterior) -> Tensor:
        r"""Scores of the domain, `R x |D|`; minus infinity where nothing is to be asked."""

    def _learn(self, paid: Tensor) -> None:
        pass

    def _propose(self) -> Tensor:
        posterior, picks = self.posterior, []
        for pick in range(self.batch_size):
            value, place = self._score(posterior).max(dim=-1)
            asked = self.domain[place]
            if pick + 1 < self.batch_size:
                posterior = posterior.copy()
                posterior.hallucinate(asked, self._noise(asked, posterior, place), index=place)
            if self.terms.levels is not None:
                level = torch.full_like(asked[..., :1], self.initial_level)
                asked = torch.cat([asked, level], dim=-1)
            picks.append(asked.where((value > -torch.inf).unsqueeze(-1), torch.nan))
        return torch.stack(picks, dim=-2)

    def _noise(self, X: Tensor, posterior: DomainPosterior, place: Tensor) -> Tensor:
        r"""Noise variances `R` of samples at `R x d` points of the domain."""
        noise = self.terms.noise_at(X.unsqueeze(-2), posterior, place.unsqueeze(-1))
        return noise[..., self.initial_level].squeeze(-1)
