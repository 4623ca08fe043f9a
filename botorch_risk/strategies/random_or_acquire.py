r"""A bandit decides when a random point is worth more than the acquisition's.

.. [Ha2023uhe]
    H. Ha, V. Nguyen, H. Zhang, A. van den Hengel. Provably Efficient Bayesian Optimization with
    Unbiased Gaussian Process Hyperparameter Estimation. arXiv:2306.06844, 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from botorch_risk.bandits import Exp3, RewardScale, draw_arms, exploration_rate, scale_reward
from botorch_risk.strategies.acquiring import AcquiringStrategy, AcquisitionFactory
from botorch_risk.strategies.initial_design import uniform_points

Arms = Literal["exp3", "random", "acquisition"]
RANDOM = 0  # the paper's arm 1


class RandomOrAcquire(AcquiringStrategy):
    r"""Random points among those of any acquisition function, Algorithm 1 of [Ha2023uhe]_.

    Arms last two evaluations. At odd t EXP3 draws one for each replicate: the first is a random
    point, then the acquisition's; the second is the acquisition's point twice. At even t the arm
    earns the larger of its two outcomes, on the scale of the initial design. With `batch_size` q an
    evaluation is one of q points. A last odd evaluation earns nothing, and neither does an
    arm whose outcomes are all missing.

    The arms are functions of the weights, t and the seeds, so that the weights are all there is to
    keep of the bandit beside two counts: `num_rewards`, and `num_saturated` of those beyond the
    outcomes of the initial design, both `R`. The rate of Algorithm 1, more than 1 at t = 1, is
    clipped there; the update takes that of the even t and the probability of the odd one.

    Example:
        >>> from botorch.acquisition import UpperConfidenceBound
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = RandomOrAcquire(
        ...     lambda model: UpperConfidenceBound(model, beta=4.0), bounds, seeds=0, num_initial=5
        ... )
        >>> for _ in range(3):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (3 * X).sin())
        >>> strategy.bandit.log_weights.shape, strategy.num_rewards.tolist()
        (torch.Size([1, 2]), [1])
    """

    def __init__(
        self,
        acquisition: AcquisitionFactory,
        bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        arms: Arms = "exp3",
        steps: int = 2,
        reward_scale: RewardScale = "min_max",
        exploration: float | None = None,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            acquisition: From a fitted model to the acquisition function of a round.
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            arms: Who chooses: EXP3, or the same arm always (`"random"` is the paper's RA-BO,
                `"acquisition"` never explores at random).
            steps: How many evaluations an arm lasts. Its first is random, the rest are not.
            reward_scale: The scale of rewards; see `botorch_risk.bandits.scale_reward`.
            exploration: A constant gamma; Algorithm 1's schedule if omitted.
            options: Further arguments of `AcquiringStrategy`.

        Raises:
            BotorchTensorDimensionError: If `bounds` is not `2 x d`.
            ValueError: If a number is out of its range, a choice unknown, or a seed repeats.
        """
        super().__init__(acquisition, bounds, seeds, **options)
        if arms not in get_args(Arms) or reward_scale not in get_args(RewardScale):
            raise ValueError(
                f"Expected `arms` to be one of {get_args(Arms)} and `reward_scale` one of "
                f"{get_args(RewardScale)}. Got {arms=}, {reward_scale=}."
            )
        if steps < 1 or (exploration is not None and not exploration > 0):
            raise ValueError(
                f"Expected `steps` >= 1 and `exploration` > 0. Got {steps=}, {exploration=}."
            )
        self.arms, self.steps = arms, steps
        self.reward_scale, self.exploration = reward_scale, exploration
        self.bandit = Exp3.start(len(self.seeds), num_arms=2)
        self.num_rewards = torch.zeros(len(self.seeds), dtype=torch.long)
        self.num_saturated = torch.zeros(len(self.seeds), dtype=torch.long)

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes, and rewards the arm that ends with them.

        Args:
            X: The evaluated points, `R x q x d`; NaN in a replicate that took no part.
            Y: Their repeats, `R x q x k`. NaN marks a missing repeat.
        """
        super().tell(X, Y)
        t = self._round - 1
        if self.arms == "exp3" and t >= 1 and t % self.steps == 0:
            self._reward(t)

    def state_dict(self) -> dict[str, Any]:  # noqa: D102
        kept = {"num_rewards": self.num_rewards, "num_saturated": self.num_saturated}
        return {**super().state_dict(), "log_weights": self.bandit.log_weights, **kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: D102
        super().load_state_dict(state)
        self.bandit = Exp3(state["log_weights"])
        self.num_rewards = state["num_rewards"].clone()
        self.num_saturated = state["num_saturated"].clone()

    def chosen(self, t: int) -> Tensor:
        r"""The arm of each replicate at evaluation t, `R`: 0 for random, 1 for the acquisition.

        Args:
            t: Counts evaluations from 1; as long as the arm lasts.
        """
        if self.arms != "exp3":
            return torch.full((len(self.seeds),), get_args(Arms).index(self.arms) - 1)
        return draw_arms(self._probabilities(t), self.seeds, "arm", self._start(t))

    def _propose(self) -> Tensor:
        t, q = self._round, self.batch_size
        X = uniform_points(self.bounds, self.seeds, q, "random point", t)
        random = (self.chosen(t) == RANDOM) & (t == self._start(t))  # Alg. 1, line 11
        acquired = (~random).nonzero().flatten().tolist()
        X[acquired] = self._acquired(acquired)
        return X

    def _reward(self, t: int) -> None:
        outcomes = self._observed()[1].nanmean(dim=-1).cpu().double()  # R x n
        last = outcomes[:, -self.steps * self.batch_size :]
        reward = last.nan_to_num(nan=-torch.inf).amax(dim=-1)  # Alg. 1, line 19
        reward = reward.masked_fill(reward == -torch.inf, torch.nan)
        initial = outcomes[:, : self.num_initial]
        value, saturated = scale_reward(reward, initial, outcomes, self.reward_scale)
        rewarded = value.isfinite()
        self.bandit = self.bandit.update(  # Alg. 1, line 20
            self.chosen(t), value, self._probabilities(t), self._gamma(t), rewarded
        )
        self.num_rewards = self.num_rewards + rewarded
        self.num_saturated = self.num_saturated + (saturated & rewarded)

    def _start(self, t: int) -> int:
        r"""The evaluation at which the arm of evaluation t was drawn."""
        return t - (t - 1) % self.steps

    def _gamma(self, t: int) -> float:
        return self.exploration or exploration_rate(t / self.steps, num_arms=2)  # Alg. 1, line 5

    def _probabilities(self, t: int) -> Tensor:
        return self.bandit.probabilities(self._gamma(self._start(t)))  # Alg. 1, line 7
