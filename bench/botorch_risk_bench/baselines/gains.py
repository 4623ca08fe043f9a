r"""Reward a bandit's arms for what they gained, a remedy that the papers do not have."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from botorch_risk.arguments import check_fields
from botorch_risk.papers.uhe_bo import RandomOrAcquire
from botorch_risk.strategies.method import ReportedMethod, State, View

Gain = Literal["amount", "sign"]


@dataclass(frozen=True)
class RewardGains(ReportedMethod):
    r"""UHE-BO's bandit, whose arms earn what they gained instead of their larger outcome.

        amount:  clip((y - best before the arm) / (high - low), 0, 1)
        sign:    1 if y > best before the arm, else 0

    Here y is the larger outcome of the arm, `low` and `high` the range of the initial design, as in
    `min_max` of `botorch_risk.bandits.scale_reward`. Amounts add up to at most the regret of the
    initial design in units of its range, whatever the number of rounds, so that they move the
    weights of EXP3 little; signs do not shrink with the regret.

    Args:
        report: The bandit, with `min_max` as its scale.
        gain: Whether the amount counts, or only its sign.

    Raises:
        ValueError: If the gain is unknown or the bandit has another scale.
    """

    report: RandomOrAcquire
    gain: Gain = "amount"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.report.reward_scale != "min_max":
            raise ValueError(
                'Expected a bandit with the scale "min_max" for gains. '
                f"Got {self.report.reward_scale!r}."
            )

    def propose(self, view: View) -> Tensor:
        return self.report.propose(view)

    def learn(self, view: View) -> State:
        r"""Rewards the arm that ends with the last rows, by outcomes that its gains stand in for.

        The bandit scales a reward by the initial design, so that `low + gain` earns the gain.
        """
        history, steps = view.history, self.report.steps
        if view.round <= steps:  # no arm has ended
            return view.state
        last = history.rounds > view.round - 1 - steps
        outcomes = history.mean.cpu()  # as the bandit, which stays there
        low = outcomes[:, history.rounds == 0].nan_to_num(nan=torch.inf).amin(dim=-1, keepdim=True)
        high = outcomes[:, history.rounds == 0].nan_to_num(nan=-torch.inf).amax(-1, keepdim=True)
        best = outcomes[:, ~last].nan_to_num(nan=-torch.inf).amax(dim=-1, keepdim=True)
        gains = (outcomes - best).clamp_min(0)  # NaN where an outcome is missing
        if self.gain == "sign":
            gains = (high - low) * gains.sign()
        Y = outcomes.where(~last, low + gains)[..., None, None]
        return self.report.learn(replace(view, history=replace(history, Y=Y)))
