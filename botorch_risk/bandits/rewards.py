r"""Scales rewards by the outcomes of the initial design, in four readings of the paper."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from botorch_risk.arguments import as_floating

RewardScale = Literal["min_max", "unclipped_min_max", "z_score", "running_min_max"]


class ScaledReward(NamedTuple):
    r"""Scaled rewards, and which of them carry no information.

    Args:
        value: The scaled rewards, `R`; NaN without a reward, or without outcomes to scale by.
        saturated: Whether the reward lies beyond the outcomes of the initial design, above or
            below, `R`: there a clipped reward no longer distinguishes the arms.

    Example:
        >>> initial = torch.tensor([[0.0, 4.0], [0.0, 4.0]])  # R x n_0
        >>> scale_reward(torch.tensor([3.0, 9.0]), initial, initial)
        ScaledReward(value=tensor([0.7500, 1.0000]), saturated=tensor([False,  True]))
    """

    value: Tensor
    saturated: Tensor


def scale_reward(
    rewards: Tensor, initial: Tensor, so_far: Tensor, scale: RewardScale = "min_max"
) -> ScaledReward:
    r"""Rewards in units of the initial design's outcomes, Algorithm 1, line 19 of [Ha2023uhe]_.

    The paper says no more than "scale it using D_0". With `low` and `high` the least and the
    largest outcome, the choices are

        min_max:            clip((r - low) / (high - low), 0, 1)    of D_0
        unclipped_min_max:  (r - low) / (high - low)                of D_0
        z_score:            (r - mean) / standard deviation         of D_0
        running_min_max:    (r - low) / (high - low)                of all outcomes, this one too

    The first, the default, keeps the rewards where the theory of EXP3 wants them, but is 1 for
    either arm once both beat the initial design; the last stays within [0, 1] without that. Where
    the outcomes to scale by are all equal, all choices are 1 for a reward above them, 0 below
    and 1/2 at them.

    Args:
        rewards: Rewards in the units of the outcomes, `R`; NaN where there is none.
        initial: Outcomes of the initial design, `R x n_0`; NaN where missing.
        so_far: All outcomes, `R x n`.
        scale: Which of them.

    Raises:
        ValueError: If the scale is unknown.

    Example:
        >>> initial = torch.tensor([[0.0, 4.0], [3.0, 3.0]])
        >>> scale_reward(torch.tensor([5.0, 4.0]), initial, initial, "unclipped_min_max").value
        tensor([1.2500, 1.0000])
    """
    if scale not in get_args(RewardScale):
        raise ValueError(f"Expected `scale` to be one of {get_args(RewardScale)}. Got {scale!r}.")
    rewards = as_floating(rewards, "rewards")
    initial, so_far = as_floating(initial, "initial"), as_floating(so_far, "so_far")
    low, high = _range(initial)
    saturated = (rewards > high) | (rewards < low)
    if scale == "z_score":
        center, width = initial.nanmean(dim=-1), _standard_deviation(initial)
    else:
        center, top = _range(so_far) if scale == "running_min_max" else (low, high)
        width = top - center
    flat = width <= torch.finfo(width.dtype).eps * center.abs()
    value = (rewards - center) / torch.where(flat, 1.0, width)
    value = torch.where(flat, 0.5 + 0.5 * torch.sign(rewards - center), value)
    if scale == "min_max":
        value = value.clamp(0.0, 1.0)
    return ScaledReward(torch.where(low.isfinite(), value, torch.nan), saturated)


def _range(outcomes: Tensor) -> tuple[Tensor, Tensor]:
    r"""The least and the largest outcome of each replicate, infinite where it has none."""
    missing = outcomes.isnan()
    low = outcomes.masked_fill(missing, torch.inf).amin(dim=-1)
    return low, outcomes.masked_fill(missing, -torch.inf).amax(dim=-1)


def _standard_deviation(outcomes: Tensor) -> Tensor:
    deviations = outcomes - outcomes.nanmean(dim=-1, keepdim=True)
    return deviations.square().nanmean(dim=-1).sqrt()
