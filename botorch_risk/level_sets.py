r"""How good is an estimate of a level set, or of the set of maximisers?

Classes, scores and accuracies on a finite domain. A point is high, the positive class, if
`f >= h`. References are to Bogunovic et al., "Truncated Variance Reduction", 2016.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.acquisition.confidence_sets import classify
from botorch_risk.acquisition.epochs import ImplicitThreshold
from botorch_risk.acquisition.truncated_variance_state import TruncatedVarianceState
from botorch_risk.posterior.domain import DomainPosterior


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
    r"""How well an estimate of the points that are high agrees with the truth.

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


class Status(NamedTuple):
    r"""Where a run stands, `batch_shape` each.

    Attributes:
        num_unclassified: The size of `M_t`.
        epoch: The epoch i, from 1.
        target: `eta_(i)`, in units of the outcome.
        largest_deviation: The largest posterior standard deviation in `M_t`; the epoch ends when
            `sqrt(beta)` times it is at the target.
        cost: What all samples have cost so far.
    """

    num_unclassified: Tensor
    epoch: Tensor
    target: Tensor
    largest_deviation: Tensor
    cost: Tensor


def level_of(values: Tensor, threshold: float | ImplicitThreshold) -> Tensor:
    r"""The level for values `batch_shape x |D|` of f, `batch_shape x 1`."""
    if isinstance(threshold, ImplicitThreshold):
        return threshold.of(values.amax(dim=-1, keepdim=True))
    return values.new_full((*values.shape[:-1], 1), threshold)


def classify_by_mean(posterior: DomainPosterior, threshold: float | ImplicitThreshold) -> LevelSets:
    r"""Classes by the posterior mean: high where `mean >= h` (Sec. 4).

    The rule by which the paper compares all methods. A fraction of the maximum is taken of the
    largest mean.

    Args:
        posterior: Over the domain.
        threshold: The level, a number or a fraction of the maximum.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(domain[::7], (6 * domain[::7]).sin())
        >>> posterior = DomainPosterior(model, domain)
        >>> sets = classify_by_mean(posterior, threshold=0.5)
        >>> level_set_scores(sets.high, (6 * domain).sin().squeeze(-1) >= 0.5).f1 > 0.9
        tensor(True)
    """
    mean = posterior.mean
    high = mean >= level_of(mean, threshold)
    return LevelSets(high, ~high, torch.zeros_like(high))


def classify_by_confidence(
    posterior: DomainPosterior, threshold: float | ImplicitThreshold, beta: float | Tensor
) -> LevelSets:
    r"""Classes by the present confidence bounds, without memory: Eqs. (6) and (7) from scratch.

    Args:
        posterior: Over the domain.
        threshold: The level, a number or a fraction of the maximum.
        beta: Squared width of the bounds, one for all or `batch_shape`.
    """
    mean = posterior.mean
    width = torch.as_tensor(beta, dtype=mean.dtype, device=mean.device).sqrt().unsqueeze(-1)
    reach = width * posterior.variance.sqrt()
    none = torch.zeros_like(mean, dtype=torch.bool)
    _, high, low = classify((~none, none, none), mean - reach, mean + reach, threshold)
    return LevelSets(high, low, ~high & ~low)


def level_set_scores(high: Tensor, truth: Tensor, weights: Tensor | None = None) -> LevelSetScores:
    r"""Scores of the points that are called high.

        f1 = 2 TP / (2 TP + FP + FN),  precision = TP / (TP + FP),  recall = TP / (TP + FN)

    with 0 / 0 = 1.

    Args:
        high: `batch_shape x |D|`, whether a point is called high.
        truth: `|D|` or `batch_shape x |D|`, whether `f >= h`.
        weights: `|D|` weights of the points in the misclassified volume; equal by default.

    Raises:
        BotorchTensorDimensionError: If the shapes do not fit.

    Example:
        >>> called, truth = torch.tensor([True, True, False]), torch.tensor([True, False, False])
        >>> scores = level_set_scores(called, truth)
        >>> round(scores.f1.item(), 4), scores.precision.item(), scores.recall.item()
        (0.6667, 0.5, 1.0)
    """
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
    r"""The smallest epsilon for which the sets are epsilon-accurate (Definition 3.1).

    To maximise: all maximisers are in `M_t`, and all its points are within epsilon of the
    maximum. For a level set: `f > h` in `H_t`, `f < h` in `L_t`, and `|f - h| <= epsilon / 2` in
    `M_t`. (A point with `f = h` is in the positive class, but neither set may hold it.)

    Args:
        state: The sets.
        values: `|D|` or `batch_shape x |D|` true values of f.

    Returns:
        `batch_shape` values of epsilon; infinity where a set is wrong.
    """
    values = values.expand(state.unclassified.shape)
    if state.threshold is None:
        gap = values.amax(dim=-1, keepdim=True) - values
        wrong = (gap == 0) & ~state.unclassified
        error = gap.where(state.unclassified, 0.0).amax(dim=-1)
    else:
        level = level_of(values, state.threshold)
        wrong = (state.high & (values <= level)) | (state.low & (values >= level))
        open_points = state.unclassified & ~state.high & ~state.low
        error = 2 * (values - level).abs().where(open_points, 0.0).amax(dim=-1)
    return error.where(~wrong.any(dim=-1), torch.inf)


def status(state: TruncatedVarianceState, posterior: DomainPosterior) -> Status:
    r"""Where a run of TRUVAR stands.

    Args:
        state: After its last update.
        posterior: Of that update.

    Raises:
        InputDataError: If the posterior is that of another domain.
    """
    state.check_domain(posterior)
    inside = posterior.variance.where(state.unclassified, 0.0)
    return Status(
        num_unclassified=state.unclassified.sum(dim=-1),
        epoch=state.epoch,
        target=state.eta * posterior.prior_variance.double().sqrt(),
        largest_deviation=inside.amax(dim=-1).sqrt(),
        cost=state.cost,
    )


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole.clamp_min(1), 1.0)
