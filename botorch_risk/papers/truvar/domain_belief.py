r"""Beliefs about the points of a finite domain: a posterior, samples of it, and classes."""

from dataclasses import dataclass
from typing import Any

import torch
from botorch.utils.probability.utils import ndtr
from torch import Tensor

from botorch_risk.engine import Belief, DomainPosterior
from botorch_risk.papers.truvar.goals import LevelSetGoal, Sets
from botorch_risk.strategies.method import Classification
from botorch_risk.strategies.prediction import Interval, Prediction, predict_by_models


@dataclass
class DomainBelief:
    r"""The posterior of a finite domain, and the number of history rows that it includes."""

    posterior: DomainPosterior
    built: int
    num_rows: int


@dataclass(frozen=True)
class SampledDomain:
    r"""The processes with sampled hyperparameters, for predictions and probabilities.

    Args:
        parts: Replicates with equally many outcomes, and their model of batch shape `[S, R]`.
    """

    parts: list[tuple[list[int], Any]]

    def predict(self, X: Tensor) -> Prediction:
        r"""Predict by the mixture, at inputs `R x n x d`."""
        found = [predict_by_models([model], X[rows]) for rows, model in self.parts]
        outcome = Interval(*map(self._joined, *(each.outcome for each in found)))
        noise = self._joined(*(each.noise for each in found))
        intervals: Any = [each.noise_interval for each in found]
        lower, upper = map(self._joined, *intervals)
        return Prediction(outcome, noise, (lower, upper))

    def probability(self, goal: LevelSetGoal, domain: Tensor) -> Tensor:
        r"""The probabilities of being at or above the level, `R x |D|`.

        A level that depends on f is computed from the mixture's mean.
        """
        found = []
        for _, model in self.parts:
            mean, variance = Belief(model)(domain.expand(*model.batch_shape, *domain.shape))
            excess = mean - goal.level(mean.mean(dim=0))
            found.append(ndtr(excess / variance.sqrt()).mean(dim=0))
        return self._joined(*found)

    def _joined(self, *parts: Tensor) -> Tensor:
        # The parts come by their numbers of outcomes: back to the order of the replicates.
        order = [row for rows, _ in self.parts for row in rows]
        return torch.cat(parts)[torch.tensor(order).argsort()]


def probability_of(goal: LevelSetGoal, posterior: DomainPosterior) -> Tensor:
    r"""The posterior's probabilities of being at or above the level, `R x |D|`."""
    excess = posterior.mean - goal.level(posterior.mean)
    # Without variance the sign decides, and f at the level is high: `f >= h`.
    is_known = posterior.variance <= posterior.resolution.unsqueeze(-1)
    deviation = posterior.variance.where(~is_known, 1.0).sqrt()
    certain = (excess >= 0).to(excess)
    return torch.where(is_known, certain, ndtr(excess / deviation))


def classes_of_sets(sets: Sets, probability: Tensor) -> Classification:
    r"""The classes by a sampler's sets: the unclassified, high and low points, `R x |D|`."""
    _, high, low = sets
    return Classification(high, low, ~high & ~low, probability)


def classes_of(probability: Tensor, confidence: float) -> Classification:
    r"""The classes that points have with a probability of at least `confidence`."""
    high, low = probability >= confidence, probability <= 1 - confidence
    return Classification(high, low, ~high & ~low, probability)
