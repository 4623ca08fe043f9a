from __future__ import annotations

import math

import pytest
import torch

from botorch_risk.bandits import scale_reward

INITIAL = torch.tensor([[0.0, 2.0, 4.0], [1.0, math.nan, 3.0]]).double()
SO_FAR = torch.cat([INITIAL, torch.tensor([[8.0], [2.0]]).double()], dim=-1)
REWARDS = torch.tensor([6.0, 1.5]).double()


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("min_max", [1.0, 0.25]),
        ("unclipped_min_max", [1.5, 0.25]),
        ("z_score", [4.0 / math.sqrt(8 / 3), -0.5]),
        ("running_min_max", [0.75, 0.25]),
    ],
)
def test_scales(scale: str, expected: list[float]) -> None:
    scaled = scale_reward(REWARDS, INITIAL, SO_FAR, scale)
    torch.testing.assert_close(scaled.value, torch.tensor(expected).double())
    assert scaled.saturated.tolist() == [True, False]


@pytest.mark.parametrize("scale", ["min_max", "unclipped_min_max", "z_score", "running_min_max"])
@pytest.mark.parametrize("level", [0.0, 3.1])
def test_constant_outcomes_are_a_step(scale: str, level: float) -> None:
    initial = torch.full((3, 4), level).double()
    rewards = torch.tensor([level - 1, level, level + 1]).double()
    assert scale_reward(rewards, initial, initial, scale).value.tolist() == [0.0, 0.5, 1.0]


def test_without_reward_or_outcomes_there_is_no_number() -> None:
    initial = torch.tensor([[0.0, 1.0], [math.nan, math.nan]])
    scaled = scale_reward(torch.tensor([math.nan, 1.0]), initial, initial)
    assert scaled.value.isnan().all()
    assert not scaled.saturated[0]


def test_unknown_scale() -> None:
    with pytest.raises(ValueError, match="`scale` to be one of"):
        scale_reward(REWARDS, INITIAL, SO_FAR, "rank")
