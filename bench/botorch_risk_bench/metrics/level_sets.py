r"""Classes and scores of estimated level sets, and the accuracy of sets of maximisers.

On a finite domain. A point is high, the positive class, if
`f >= h`. References are to [Bogunovic2016truvar]_.
"""

from typing import NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import as_floating, as_tensor
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers.truvar.goals import LevelSetGoal
from botorch_risk.papers.truvar.state import TruncatedVarianceState


class LevelSets(NamedTuple):
    r"""A domain in three parts.

    Attributes:
        high: `batch_shape x |D|`.
        low: `batch_shape x |D|`.
        unclassified: `batch_shape x |D|`.
    """

    high: Tensor
    low: Tensor
    unclassified: Tensor


class LevelSetScores(NamedTuple):
    r"""How well the points called high agree with the truth.

    Attributes:
        f1: `batch_shape`, the harmonic mean of precision and recall; 1 if both sets are empty.
        precision: `batch_shape`, the share of true ones among the points called high; 1 if none is.
        recall: `batch_shape`, the share of the high points that were found; 1 if there is none.
        misclassified_volume: `batch_shape`, the weight of the points put into the wrong class, as a
            fraction of the whole.
    """

    f1: Tensor
    precision: Tensor
    recall: Tensor
    misclassified_volume: Tensor


def classify_by_mean(posterior: DomainPosterior, goal: LevelSetGoal) -> LevelSets:
    r"""Classes by the posterior mean: high where `mean >= h`.

    The rule by which [Bogunovic2016truvar]_, Sec. 4, compares all methods. A relative level is a
    fraction of the largest mean.

    Args:
        goal: `LevelSet(threshold)` or `RelativeLevelSet(fraction)`.
    """
    mean = posterior.mean
    high = mean >= goal.level(mean)
    return LevelSets(high, ~high, torch.zeros_like(high))


def classify_by_confidence(
    posterior: DomainPosterior, goal: LevelSetGoal, beta: float | Tensor
) -> LevelSets:
    r"""Classes by the present confidence bounds, without memory.

    Eqs. (6) and (7) of [Bogunovic2016truvar]_ from scratch.

    Args:
        goal: `LevelSet(threshold)` or `RelativeLevelSet(fraction)`.
        beta: Squared width of the bounds, one for all or `batch_shape`.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.papers import LevelSet
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(domain[::7], (6 * domain[::7]).sin())
        >>> posterior = DomainPosterior(model, domain)
        >>> sets = classify_by_confidence(posterior, LevelSet(0.5), beta=4.0)
        >>> bool((sets.high | sets.low | sets.unclassified).all())
        True
    """
    mean = posterior.mean
    width = as_nonnegative("beta", beta).to(mean).sqrt().unsqueeze(-1)
    reach = width * posterior.variance.sqrt()
    none = torch.zeros_like(mean, dtype=torch.bool)
    _, high, low = goal.classify((~none, none, none), mean - reach, mean + reach)
    return LevelSets(high, low, ~high & ~low)


def level_set_scores(high: Tensor, truth: Tensor, weights: Tensor | None = None) -> LevelSetScores:
    r"""Scores of the points that are called high.

        f1 = 2 TP / (2 TP + FP + FN),  precision = TP / (TP + FP),  recall = TP / (TP + FN)

    with 0 / 0 = 1.

    The F1 score of [Bogunovic2016truvar]_, Sec. 4.

    Args:
        high: `batch_shape x |D|`, whether a point is called high.
        truth: `|D|` or `batch_shape x |D|`, whether `f >= h`.
        weights: `|D|` weights of the points in the misclassified volume; equal by default.

    Raises:
        BotorchTensorDimensionError: If the shapes do not fit.
    """
    high, truth = as_tensor("high", high), as_tensor("truth", truth)
    weights = as_tensor("weights", weights)
    if high.dtype != torch.bool or truth.dtype != torch.bool or high.shape[-1] != truth.shape[-1]:
        raise BotorchTensorDimensionError(
            "Expected boolean `high` and `truth` of the same points, `batch_shape x |D|`. "
            f"Got {high.dtype}, {high.shape=}, {truth.dtype}, {truth.shape=}."
        )
    right = (high & truth).sum(dim=-1).double()
    false_alarms = (high & ~truth).sum(dim=-1)
    missed = (~high & truth).sum(dim=-1)
    wrong = (high ^ truth).double()
    weight = (
        torch.ones_like(wrong[..., :]) if weights is None else weights.to(wrong).expand_as(wrong)
    )
    return LevelSetScores(
        f1=_ratio(2 * right, 2 * right + false_alarms + missed),
        precision=_ratio(right, right + false_alarms),
        recall=_ratio(right, right + missed),
        misclassified_volume=(wrong * weight).sum(dim=-1) / weight.sum(dim=-1),
    )


def accuracy(state: TruncatedVarianceState, values: Tensor) -> Tensor:
    r"""The smallest epsilon for which the sets are epsilon-accurate.

    Definition 3.1 of [Bogunovic2016truvar]_.

    To maximise: all maximisers are in `M_t`, and all its points are within epsilon of the
    maximum. For a level set: `f > h` in `H_t`, `f < h` in `L_t`, and `|f - h| <= epsilon / 2` in
    `M_t`.

    Args:
        state: The sets, and the goal that they are for.
        values: `|D|` or `batch_shape x |D|` true values of f.

    Returns:
        `batch_shape` values of epsilon; infinity where a set is wrong.
    """
    values = as_floating(values)
    return state.goal.accuracy(state.sets, values.expand(state.unclassified.shape))


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole.clamp_min(1), 1.0)
