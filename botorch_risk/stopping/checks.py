r"""What check points show: how many of all decisions can be better than the recommended one."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from scipy.special import betaincinv, ndtr, ndtri
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    check_arguments,
    check_nonnegative,
    check_probability,
)


@dataclass(frozen=True)
class ShareBetter:
    r"""How many of all decisions are better by more than epsilon, one entry per replicate.

    Attributes:
        share: `R`, an upper limit of the share of such decisions, with confidence `1 - delta`.
        num_better: `R`, the number of check points that count as better.
        power: `R`, the probability that a check point as good as the recommendation does not count.
    """

    share: Tensor
    num_better: Tensor
    power: Tensor


def share_better(
    risks: Tensor,
    recommended: Tensor,
    epsilon: float = 0.0,
    delta: float = 0.05,
    *,
    error: float | Tensor = 0.0,
    recommended_error: float | Tensor = 0.0,
    overlooked: float = 0.1,
) -> ShareBetter:
    r"""An upper limit of the share of decisions that are better than the recommended one.

        P(share of {x : risk(x) > risk(recommended) + epsilon} <= limit) >= 1 - delta

    from the risks of m check points, random decisions drawn independently of all else. No model
    comes into it. If k of them are better, the limit is `Beta^-1(1 - delta; k + 1, m - k)`
    [Clopper1934binomial]_; with k = 0 it is `1 - delta^(1 / m)`, .1 for 29 points.
    A region that is better, but smaller than the limit, may have been missed.

    The recommendation has to be fixed before the check points are read, with one exception: if
    risks are read exactly, it may be the best of all decisions read. Then none of the check points
    is better, and the limit holds, since the best of m draws is among the best
    `1 - delta^(1 / m)` of all with probability `1 - delta`.

    If risks are noisy, their errors are normal with known standard deviations. A check point counts
    as better unless its risk is below `recommended + epsilon` by `z error`, where z is such that
    a better decision is overlooked with probability `overlooked`; the limit grows by the factor
    `1 / (1 - overlooked)`. If the recommendation's risk has an error too, half of delta is spent on
    a lower limit of this risk. If the power is low, read each check point more often: one reading
    at one w says little about a risk over all w.

    Args:
        risks: The risks of the check points, `R x m`.
        recommended: The risk of each recommendation, `R`.
        epsilon: How much better counts, >= 0, in the unit of the risk.
        delta: The probability that the share is larger than the limit, in (0, 1).
        error: The standard deviation of the errors of `risks`, a number or `R x m`.
        recommended_error: The error of `recommended`, a number or `R`.
        overlooked: The probability that a check overlooks a better decision, in (0, 1). Unused
            if the errors are 0.

    Raises:
        BotorchTensorDimensionError: If the shapes differ from these.

    Example:
        >>> risks = torch.linspace(-3.0, 0.0, 29).unsqueeze(0)
        >>> known = share_better(risks, torch.tensor([0.1]))
        >>> known.num_better, known.share
        (tensor([0]), tensor([0.0981]))
    """
    check_arguments(share_better, locals())
    risks, recommended = as_floating(risks, "risks"), as_floating(recommended, "recommended")
    check_nonnegative(epsilon=epsilon)
    check_probability(delta=delta, overlooked=overlooked)
    if risks.dim() != 2 or recommended.shape != risks.shape[:1] or not risks.shape[-1]:
        raise BotorchTensorDimensionError(
            "Expected `risks` of shape `R x m`, m at least 1, and `recommended` of shape `R`. Got "
            f"{tuple(risks.shape)}, {tuple(recommended.shape)}."
        )
    for name, values in (("risks", risks), ("recommended", recommended)):
        if not values.isfinite().all():
            raise ValueError(f"Expected finite `{name}`. Got {values[~values.isfinite()][0]}.")
    of_checks = _errors("error", error, risks)
    of_reference = _errors("recommended_error", recommended_error, recommended)
    if of_reference.any():
        delta = delta / 2
    reference = recommended - ndtri(1 - delta) * of_reference + epsilon
    margin = -ndtri(overlooked) * of_checks
    is_better = risks + margin > reference.unsqueeze(-1)
    number = is_better.sum(dim=-1)
    limit = _largest_share(number, risks.shape[-1], delta).to(risks)
    factor = torch.where((of_checks > 0).any(dim=-1), 1 / (1 - overlooked), 1.0)
    # Of a check point whose risk is the recommendation's; without an error it is certain.
    room = (reference - recommended).unsqueeze(-1) - margin
    deviations = (room / of_checks).nan_to_num(nan=torch.inf)
    power = torch.as_tensor(ndtr(deviations)).mean(dim=-1).to(risks)
    return ShareBetter((limit * factor.to(risks)).clamp_max(1.0), number, power)


def num_check_points(share: float, delta: float = 0.05, overlooked: float = 0.0) -> int:
    r"""How many check points limit the share of better decisions, if none of them is better.

    Args:
        share: The limit wanted, in (0, 1).
        delta: The probability that the share is larger than the limit, in (0, 1).
        overlooked: The probability that a check overlooks a better decision; 0 without noise.

    Example:
        >>> num_check_points(0.1), num_check_points(0.05), num_check_points(0.1, overlooked=0.1)
        (29, 59, 32)
    """
    check_probability(share=share, delta=delta)
    if overlooked:
        check_probability(overlooked=overlooked)
    return math.ceil(math.log(delta) / math.log1p(-share * (1 - overlooked)))


def _largest_share(number: Tensor, num_points: int, delta: float) -> Tensor:
    r"""The upper limit of a share, `R`, of which so many of `num_points` draws were seen."""
    every = number >= num_points
    limit = betaincinv(number.double() + 1, (num_points - number).clamp_min(1).double(), 1 - delta)
    return torch.as_tensor(limit).where(~every, 1.0)


def _errors(name: str, errors: Any, like: Tensor) -> Tensor:
    errors = torch.as_tensor(errors).to(like)
    check_nonnegative(**{name: errors})
    try:
        return errors.expand_as(like)
    except RuntimeError as error:
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to be a number or of shape {tuple(like.shape)}. Got "
            f"{tuple(errors.shape)}."
        ) from error
