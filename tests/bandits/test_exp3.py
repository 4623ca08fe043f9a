r"""EXP3 and the rewards that it scales."""

import math
import pickle
import random

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.bandits import Exp3, exploration_rate, scale_reward
from botorch_risk.bandits.exp3 import draw_arms


def probabilities(weights: dict[int, float], gamma: float) -> list[float]:
    r"""Algorithm 2, line 5, by a loop."""
    total = sum(weights.values())
    return [(1 - gamma) * weights[k] / total + gamma / len(weights) for k in sorted(weights)]


@pytest.mark.parametrize("num_arms", [2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_equals_a_loop_over_ten_thousand_rounds(num_arms: int) -> None:
    rng = random.Random(num_arms)
    bandit, weights = Exp3.start(1, num_arms), dict.fromkeys(range(num_arms), 1.0)
    found = []
    for t in range(1, 10_001):
        gamma, later = exploration_rate(t / 2, num_arms), exploration_rate((t + 1) / 2, num_arms)
        expected = probabilities(weights, gamma)
        p = bandit.probabilities(gamma)
        found.append((p[0].tolist(), expected))
        arm, reward = rng.choices(range(num_arms), expected)[0], rng.random() * (t % 3 > 0)
        bandit = bandit.update(torch.tensor([arm]), torch.tensor([reward]).double(), p, later)
        weights[arm] *= math.exp(later * reward / (num_arms * expected[arm]))
        top = max(weights.values())
        weights = {k: w / top for k, w in weights.items()}  # only ratios count
    assert np.allclose(*zip(*found, strict=True), rtol=1e-9)


@pytest.mark.parametrize("means", [(0.9, 0.1), (0.5, 0.5), (0.2, 0.6, 0.4)])
@pytest.mark.slow
def test_regret_on_bernoulli_arms_stays_below_its_bound(means: tuple[float, ...]) -> None:
    R, T, K = 32, 600, len(means)
    table = torch.rand(T, R, K, generator=torch.Generator().manual_seed(0)) < torch.tensor(means)
    gamma, bandit, earned = exploration_rate(T, K), Exp3.start(R, K), torch.zeros(R)
    for t in range(T):
        p = bandit.probabilities(gamma)
        arms = draw_arms(p, range(R), "arm", t)
        rewards = table[t].double().gather(-1, arms[:, None]).squeeze(-1)
        earned += rewards
        bandit = bandit.update(arms, rewards, p, gamma)
    best = T * max(means)
    # Theorem 3.1 of Auer et al.
    assert best - earned.mean() <= (math.e - 1) * gamma * best + K * math.log(K) / gamma
    if means == (0.9, 0.1):  # and it has learnt: uniform choice loses 240
        assert best - earned.mean() < 80


def test_rate_is_that_of_algorithm_1() -> None:
    for t in range(1, 50):
        stated = math.sqrt(4 * math.log(2) / ((math.e - 1) * t))
        assert exploration_rate(t / 2, num_arms=2) == pytest.approx(min(1.0, stated))
    assert exploration_rate(0.5, 2) == 1.0


def test_gamma_above_one_explores_uniformly() -> None:
    bandit = Exp3(torch.tensor([[0.0, 50.0]]))
    assert bandit.probabilities(1.27).tolist() == [[0.5, 0.5]]


def test_weights_do_not_overflow() -> None:
    bandit = Exp3.start(1, 2)
    for _ in range(5000):
        p = bandit.probabilities(0.5)
        bandit = bandit.update(torch.tensor([1]), torch.ones(1), p, 1.0)
    assert bandit.log_weights.max() > 1000
    assert bandit.probabilities(0.5).tolist() == [[0.25, 0.75]]


def test_a_replicate_without_a_reward_keeps_its_weights() -> None:
    bandit = Exp3.start(2, 2)
    p, arms = bandit.probabilities(0.5), torch.tensor([0, 0])
    rewards = torch.tensor([1.0, math.nan])
    after = bandit.update(arms, rewards, p, 0.5, rewarded=torch.tensor([True, False]))
    assert after.log_weights[1].tolist() == [0.0, 0.0]
    assert after.log_weights[0, 0] == 0.5
    assert bandit.log_weights.abs().max() == 0  # nothing is changed in place


def test_draws_have_their_probabilities_and_ignore_their_company() -> None:
    p = torch.tensor([0.2, 0.5, 0.3]).double().expand(4000, 3)
    arms = draw_arms(p, range(4000), "arm")
    assert arms.bincount(minlength=3).div(4000).sub(p[0]).abs().max() < 0.03
    assert torch.equal(draw_arms(p[:3], [7, 2, 9], "arm"), arms[[7, 2, 9]])
    certain = torch.eye(3).double()
    assert draw_arms(certain, range(3), "arm").tolist() == [0, 1, 2]


def test_pickles() -> None:
    bandit = Exp3(torch.randn(3, 2))
    assert torch.equal(pickle.loads(pickle.dumps(bandit)).log_weights, bandit.log_weights)


def test_bad_input() -> None:
    bandit = Exp3.start(2, 2)
    p, arms, ones = bandit.probabilities(1.0), torch.tensor([0, 1]), torch.ones(2)
    for without_arms in (torch.zeros(2), torch.zeros(2, 0)):
        with pytest.raises(BotorchTensorDimensionError, match="`R x K`"):
            Exp3(without_arms)
    with pytest.raises(BotorchTensorDimensionError, match="`probabilities` `2 x 2`"):
        bandit.update(arms, ones, p[0], 1.0)
    with pytest.raises(InputDataError, match="finite `rewards`"):
        bandit.update(arms, ones * math.nan, p, 1.0)
    for gamma in (0.0, math.nan):
        with pytest.raises(ValueError, match="`gamma` > 0"):
            bandit.probabilities(gamma)
    with pytest.raises(ValueError, match="`max_reward` > 0"):
        exploration_rate(0.0, 2)


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


def test_one_seed_for_each_replicate() -> None:
    for rows, seeds in ((5, 0), (1, [0, 1, 2])):
        with pytest.raises(ValueError, match="seed"):
            draw_arms(torch.full((rows, 2), 0.5), seeds, "arm")


@pytest.mark.parametrize("arms", [[0, 2], [-1, 0], [0.0, 1.0]])
def test_arms_exist(arms: list[float]) -> None:
    even = torch.full((2, 2), 0.5, dtype=torch.double)
    with pytest.raises(InputDataError, match="`arms` to be whole numbers from 0 to 1"):
        Exp3(torch.zeros(2, 2, dtype=torch.double)).update(
            torch.tensor(arms), [1.0, 1.0], even, 0.1
        )
    with pytest.raises(BotorchTensorDimensionError, match="`rewarded` to have shape `2`"):
        Exp3(torch.zeros(2, 2, dtype=torch.double)).update(
            [0, 1], [1.0, 1.0], even, 0.1, rewarded=torch.tensor([True])
        )
