r"""The answer of a level-set strategy: which points of a finite domain are above the level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from botorch.utils.probability.utils import ndtr
from torch import Tensor

from botorch_risk.acquisition.truncated_variance.goals import LevelSetGoal, Sets
from botorch_risk.posterior.domain import DomainPosterior


@dataclass(frozen=True)
class Classification:
    r"""Which points of a finite domain are above a level, one row per replicate.

    A `SingleExperiment` gives one row, `|D|`.

    The three sets partition the domain by confidence bounds, Eqs. (6) and (7) of
    [Bogunovic2016truvar]_. If every point needs an answer, use `probability >= 0.5`: the paper
    scores its experiments by this classification, by the posterior mean.

    Attributes:
        high: `R x |D|`, the points whose lower bound was above the level.
        low: `R x |D|`, the points whose upper bound was below the level.
        unclassified: `R x |D|`, all others.
        probability: `R x |D|` posterior probabilities that `f` is at or above the level. A level
            that is a share of the unknown maximum is that share of the largest posterior mean.
    """

    high: Tensor
    low: Tensor
    unclassified: Tensor
    probability: Tensor

    @classmethod
    def of(cls, goal: LevelSetGoal, sets: Sets, posterior: DomainPosterior) -> Classification:
        r"""Combine the sets with the posterior's probabilities.

        Args:
            goal: Says what the level is.
            sets: The points that may still be of interest, the high and the low ones, `R x |D|`.
            posterior: Over the domain, of `R` replicates.
        """
        _, high, low = sets
        excess = posterior.mean - goal.level(posterior.mean)
        is_known = posterior.variance <= posterior.resolution.unsqueeze(-1)
        deviation = posterior.variance.where(~is_known, 1.0).sqrt()
        certain = (excess >= 0).to(excess)
        probability = torch.where(is_known, certain, ndtr(excess / deviation))
        return cls(high, low, ~high & ~low, probability)

    @classmethod
    def joined(
        cls, parts: Sequence[tuple[list[int], Classification]], num_replicates: int
    ) -> Classification:
        r"""Joins the classifications of some replicates into one of all.

        Replicates without an outcome have no high and no low point, and NaN for probabilities.
        """
        _, first = parts[0]
        shape = (num_replicates, first.high.shape[-1])
        whole = cls(
            high=first.high.new_zeros(shape),
            low=first.low.new_zeros(shape),
            unclassified=first.unclassified.new_ones(shape),
            probability=first.probability.new_full(shape, torch.nan),
        )
        for replicates, part in parts:
            for each in fields(cls):
                getattr(whole, each.name)[replicates] = getattr(part, each.name)
        return whole
