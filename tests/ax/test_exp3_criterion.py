r"""Which trials EXP3 draws."""

import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
import torch
from ax.generation_strategy.generation_strategy import GenerationStrategy

from botorch_risk.ax.random_exploration import Exp3Criterion, _Evaluation
from botorch_risk.bandits import RewardScale
from botorch_risk.papers import RandomOrAcquire
from botorch_risk.strategies import Box, RandomPoints, Strategy
from tests.ax.laboratory import exploring, laboratory, node_of

NUM_INITIAL = 3


def nodes_for(
    outcomes: Sequence[float], strategy: GenerationStrategy, objective: str = "purity"
) -> list[str | None]:
    r"""The nodes of trials that are completed one by one; a trial of NaN failed."""
    client = laboratory(strategy=strategy, objective=objective)
    for index, outcome in enumerate(outcomes):
        assert list(client.get_next_trials(max_trials=1)) == [index]
        if np.isnan(outcome):
            client.mark_trial_failed(index)
        else:
            client.complete_trial(index, {"purity": outcome})
    return [node_of(client, index) for index in range(len(outcomes))]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "scale"), [*enumerate(get_args(RewardScale))])
def test_the_draws_are_those_of_the_strategy_with_the_same_seed(
    seed: int, scale: RewardScale
) -> None:
    outcomes = np.random.default_rng(seed).normal(size=23)
    outcomes[[7, 12, 13]] = np.nan
    asked = nodes_for(outcomes.tolist(), exploring(seed, reward_scale=scale))

    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    method = RandomOrAcquire(RandomPoints(), reward_scale=scale)
    strategy = Strategy(Box(bounds), method, seeds=seed, num_initial=NUM_INITIAL)
    strategy.tell(strategy.ask(), torch.tensor(outcomes[:NUM_INITIAL]).view(1, -1, 1))
    expected = ["Sobol"] * NUM_INITIAL
    for outcome in outcomes[NUM_INITIAL:]:
        ((_, view),) = strategy.views
        expected.append("inner" if view.belief[0] else "Random")
        strategy.tell(strategy.ask(), torch.tensor([[[outcome]]]))
    assert asked == expected
    assert {"Random", "inner"} < set(asked)


@pytest.mark.slow
def test_an_objective_that_is_minimised_is_rewarded_for_less() -> None:
    outcomes = np.random.default_rng(5).normal(size=19)
    maximised = nodes_for(outcomes.tolist(), exploring())
    assert nodes_for((-outcomes).tolist(), exploring(), objective="-purity") == maximised


def test_a_reward_counts_from_the_draw_after_its_pair_is_complete() -> None:
    outcomes = [0.0, 1.0, 0.5, 5.0, 5.0]  # the pair beats the initial design
    strategy = exploring()
    client = laboratory(strategy=strategy)
    for index, outcome in enumerate(outcomes):
        client.get_next_trials(max_trials=1)
        client.complete_trial(index, {"purity": outcome})
    experiment = client._experiment
    pair = [experiment.trials[index] for index in (3, 4)]

    def shares() -> float:
        r"""How often the next trial would be random, over many seeds."""
        found = [
            Exp3Criterion("Random", "Random", "inner", "unclipped_min_max", 0.5, seed)
            for seed in range(200)
        ]
        return sum(each.next_node(experiment) == "Random" for each in found) / len(found)

    known = shares()
    for trial in pair:
        trial._time_completed = None  # as if it were running still
    running = shares()
    assert abs(running - 0.5) < 0.1  # even weights
    assert abs(known - running) > 0.1


def test_trials_that_were_attached_later_are_not_of_the_initial_design() -> None:
    client = laboratory(strategy=exploring())
    for index, outcome in enumerate([0.0, 1.0, 0.5, 0.7]):
        client.get_next_trials(max_trials=1)
        client.complete_trial(index, {"purity": outcome})
    client.complete_trial(client.attach_trial({"heat": 0.5, "stir": 1.0}), {"purity": 50.0})
    criterion = Exp3Criterion("Random", "Random", "inner")
    initial, drawn = criterion._evaluations(client._experiment)
    assert [each.outcome for each in initial] == [0.0, 1.0, 0.5]
    assert [each.outcome for each in drawn] == [0.7]


@pytest.mark.parametrize("third", [0.5, 100.0, np.nan])
def test_the_scale_of_a_reward_knows_no_later_trial(third: float) -> None:
    r"""Neither one created after the pair but completed before it, nor one completed later."""
    criterion = Exp3Criterion("Random", "Random", "inner", "running_min_max", exploration=0.5)
    times = {0.0: 1.0, 1.0: 1.0, -99.0: 50.0}  # when the outcomes of the initial design are known
    initial = [_Evaluation(False, 0.0, done, outcome) for outcome, done in times.items()]
    pair = [_Evaluation(True, 2.0, 3.0, 0.5), _Evaluation(False, 2.0, 9.0, 0.8)]
    later = _Evaluation(True, 4.0, 5.0, third)
    first, after = criterion._probabilities(initial, [*pair, later])
    assert first.tolist() == [[0.5, 0.5]]
    earned = math.exp(0.5 * 0.8 / (2 * 0.5))  # exp(gamma reward / (2 p)), the reward on [0, 1]
    share = 0.5 * earned / (earned + 1) + 0.25
    torch.testing.assert_close(after, torch.tensor([[share, 1 - share]], dtype=after.dtype))
    # Of the second pair the reward of the first counts from the second in which it is complete.
    for created, counts in ((8.0, False), (9.0, True)):
        second = [_Evaluation(True, created, 10.0, 0.1), _Evaluation(False, created, 11.0, 0.2)]
        _, drawn, _ = criterion._probabilities(initial, [*pair, *second])
        assert drawn[0, 0].item() == pytest.approx(share if counts else 0.5)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"`reward_scale` to be one of .* Got 'ranks'"):
        Exp3Criterion("Random", "Random", "inner", "ranks")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`exploration` to be finite and > 0\. Got -1"):
        Exp3Criterion("Random", "Random", "inner", exploration=-1.0)
