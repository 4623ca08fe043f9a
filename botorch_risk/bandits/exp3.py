r"""EXP3, a bandit that assumes nothing about the source of rewards, for all replicates at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_counts,
    check_kind,
    check_numbers,
    first_wrong,
)
from botorch_risk.seeding import Draws, as_seeds


@dataclass(frozen=True)
class Exp3:
    r"""The weights of EXP3, Algorithm 2 of [Ha2023uhe]_, for several replicates.

        p_k = (1 - gamma) w_k / sum_j w_j + gamma / K
        w_k <- w_k exp(gamma r / (K p_k))    for the arm that was chosen

    Weights are kept as logarithms, since they grow without limit. The state is this one tensor,
    which is never changed in place: `update` returns a new bandit. The theory requires rewards in
    [0, 1]; others are used unchanged.

    Args:
        log_weights: Logarithms of the weights, `R x K` for K arms.

    Example:
        >>> bandit = Exp3.start(num_replicates=2, num_arms=2)
        >>> p = bandit.probabilities(gamma=0.5)
        >>> arms = draw_arms(p, [0, 1], "arm", 1)
        >>> bandit = bandit.update(torch.tensor([1, 0]), torch.tensor([1.0, 0.0]), p, gamma=0.5)
        >>> bandit.probabilities(gamma=0.5)
        tensor([[0.4388, 0.5612],
                [0.5000, 0.5000]], dtype=torch.float64)
    """

    log_weights: Tensor

    def __post_init__(self) -> None:
        log_weights = as_floating(self.log_weights, "log_weights")
        object.__setattr__(self, "log_weights", log_weights)
        if self.log_weights.dim() != 2 or self.log_weights.shape[-1] < 1:
            raise BotorchTensorDimensionError(
                "Expected `log_weights` to have shape `R x K` with at least one arm. "
                f"Got {self.log_weights.shape=}."
            )

    @classmethod
    def start(cls, num_replicates: int, num_arms: int) -> Exp3:
        return cls(torch.zeros(num_replicates, num_arms, dtype=torch.double))

    def probabilities(self, gamma: float) -> Tensor:
        r"""The probability of each arm, `R x K`; gamma above 1 counts as 1."""
        gamma = _clipped(gamma)
        uniform = gamma / self.log_weights.shape[-1]
        return (1.0 - gamma) * self.log_weights.softmax(dim=-1) + uniform  # Alg. 2, line 5

    def update(
        self,
        arms: Tensor,
        rewards: Tensor,
        probabilities: Tensor,
        gamma: float,
        rewarded: Tensor | None = None,
    ) -> Exp3:
        r"""The weights after the chosen arms have been rewarded.

        Args:
            arms: The arm that each replicate chose, `R`.
            rewards: The reward of that arm, `R`.
            probabilities: The probabilities of all arms when the choice was made, `R x K`. Gamma
                may have changed since.
            gamma: The exploration rate of this update; above 1 it counts as 1.
            rewarded: An optional boolean mask, `R`, of replicates whose choice has a reward; the
                others keep their weights.
        """
        arms, rewards = as_tensor("arms", arms), as_floating(rewards, "rewards")
        probabilities = as_floating(probabilities, "probabilities")
        rewarded = as_tensor("rewarded", rewarded)
        count, num_arms = self.log_weights.shape
        counts = torch.ones_like(arms, dtype=torch.bool) if rewarded is None else rewarded
        shapes = arms.shape, rewards.shape, counts.shape, probabilities.shape
        if shapes != (*[(count,)] * 3, (count, num_arms)):
            raise BotorchTensorDimensionError(
                f"Expected `arms`, `rewards` and `rewarded` to have shape `{count}` and "
                f"`probabilities` `{count} x {num_arms}`. Got {arms.shape=}, {rewards.shape=}, "
                f"{counts.shape=}, {probabilities.shape=}."
            )
        known = (arms >= 0) & (arms < num_arms) & (not arms.is_floating_point())
        if not known.all():
            raise InputDataError(
                f"Expected `arms` to be whole numbers from 0 to {num_arms - 1}. "
                f"Got {first_wrong(arms, known)}."
            )
        if not (finite := rewards.isfinite() | ~counts).all():
            raise InputDataError(
                "Expected finite `rewards`, or a mask of the finite rewards. "
                f"Got {first_wrong(rewards, finite)}."
            )
        chosen = probabilities.gather(-1, arms.unsqueeze(-1))
        estimates = torch.where(counts, rewards, 0.0).to(chosen).unsqueeze(-1) / chosen
        step = _clipped(gamma) / num_arms * estimates  # Alg. 2, line 8
        return Exp3(self.log_weights.scatter_add(-1, arms.unsqueeze(-1), step))


def draw_arms(probabilities: Tensor, seeds: int | Sequence[int], *stream: int | str) -> Tensor:
    r"""Draw one arm for each replicate, `R`, from probabilities `R x K`.

    Each draw depends only on its seed, the stream and its probabilities: Algorithm 2, line 6, of
    [Ha2023uhe]_.
    """
    probabilities = as_floating(probabilities, "probabilities")
    uniforms = Draws(as_seeds(seeds, len(probabilities)), *stream).uniforms()
    draws = torch.as_tensor(uniforms).to(probabilities.device)
    above = draws.unsqueeze(-1) >= probabilities.cumsum(dim=-1)
    return above.sum(dim=-1).clamp_max(probabilities.shape[-1] - 1)  # rounding of the sum


def exploration_rate(max_reward: float, num_arms: int) -> float:
    r"""The gamma of Corollary 3.2 of [Auer2002exp3]_, at most 1.

        gamma = min(1, sqrt(K log K / ((e - 1) g)))

    Expected regret is then at most `2.63 sqrt(g K log K)`. Algorithm 1 of [Ha2023uhe]_ has this
    rate with K = 2 and g = t / 2, the number of choices in t evaluations:
    `sqrt(4 log 2 / ((e - 1) t))`. In Appendix A.4, g is below the reward instead of above it.

    Args:
        max_reward: An upper bound g of the total reward of the best arm, such as the number of
            choices.
        num_arms: The number of arms K.
    """
    check_numbers(max_reward=max_reward)
    if not max_reward > 0:
        raise ValueError(f"Expected `max_reward` > 0. Got {max_reward=}.")
    check_counts(num_arms=num_arms)
    # With this gamma Eq. (12) of [Ha2023uhe]_ holds.
    return min(1.0, math.sqrt(num_arms * math.log(num_arms) / ((math.e - 1) * max_reward)))


def _clipped(gamma: float) -> float:
    if not gamma > 0:
        raise ValueError(f"Expected `gamma` > 0. Got {gamma=}.")
    return min(1.0, gamma)


RewardScale = Literal["min_max", "unclipped_min_max", "z_score", "running_min_max"]


class ScaledReward(NamedTuple):
    r"""Scaled rewards, and whether they are informative.

    Args:
        value: The scaled rewards, `R`; NaN without a reward, or without an outcome to scale it by.
        saturated: Whether the reward lies beyond the outcomes of the initial design, above or
            below, `R`: clipped rewards there no longer distinguish the arms.
    """

    value: Tensor
    saturated: Tensor


def scale_reward(
    rewards: Tensor, initial: Tensor, so_far: Tensor, scale: RewardScale = "min_max"
) -> ScaledReward:
    r"""Rewards in units of the initial design's outcomes, Algorithm 1, line 19 of [Ha2023uhe]_.

    The paper only says "scale it using D_0". With `low` and `high` as the smallest and the largest
    outcome, the choices are

        min_max:            clip((r - low) / (high - low), 0, 1)    of D_0
        unclipped_min_max:  (r - low) / (high - low)                of D_0
        z_score:            (r - mean) / standard deviation         of D_0
        running_min_max:    (r - low) / (high - low)                of all outcomes, this one too

    The first, the default, keeps the rewards in [0, 1] as the theory of EXP3 requires, but gives 1
    to either arm once both beat the initial design; the last stays within [0, 1] without this
    saturation. If the outcomes by which rewards are scaled are all equal, all choices give 1 to a
    reward above them, 0 below and 1/2 at them.

    Args:
        rewards: Rewards in the units of the outcomes, `R`; NaN if missing.
        initial: Outcomes of the initial design, `R x n_0`; NaN where missing.
        so_far: All outcomes, `R x n`.
        scale: The choice of scale, by its name.
    """
    check_kind(RewardScale, scale=scale)
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
    r"""The smallest and the largest outcome of each replicate, infinite if it has none."""
    missing = outcomes.isnan()
    low = outcomes.masked_fill(missing, torch.inf).amin(dim=-1)
    return low, outcomes.masked_fill(missing, -torch.inf).amax(dim=-1)


def _standard_deviation(outcomes: Tensor) -> Tensor:
    deviations = outcomes - outcomes.nanmean(dim=-1, keepdim=True)
    return deviations.square().nanmean(dim=-1).sqrt()
