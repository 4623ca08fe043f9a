r"""Every kind of experiment that Ax knows, by a risk-averse generation strategy."""

import warnings
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from botorch_risk.ax import under_uncertain_context
from tests.ax.laboratory import HUMIDITY, PARAMETERS, complete, laboratory, node_of, outcome, play

pytestmark = [pytest.mark.filterwarnings("ignore:No observation of outcome")]
HEAT, STIR = PARAMETERS
CASES: dict[str, dict[str, Any]] = {
    "maximised": {},
    "minimised": {"objective": "-purity"},
    "integer": {"parameters": [HEAT, RangeParameterConfig("stir", (1, 4), parameter_type="int")]},
    "categorical": {
        "parameters": [
            HEAT,
            ChoiceParameterConfig("solvent", ["water", "oil", "air"], "str", is_ordered=False),
            STIR,
        ]
    },
    "ordered": {
        "parameters": [
            HEAT,
            ChoiceParameterConfig("stir", [0.0, 0.5, 2.0], "float", is_ordered=True),
        ]
    },
    "log-scaled": {
        "parameters": [
            HEAT,
            RangeParameterConfig("stir", (0.01, 1.0), parameter_type="float", scaling="log"),
        ]
    },
    "fixed": {"parameters": [HEAT, STIR, ChoiceParameterConfig("room", ["a"], "str")]},
    "parameter constraint": {"parameter_constraints": ["heat + stir <= 1.5"]},
    "outcome constraint": {"constraints": ["cost <= 1.5"]},
}


def is_within(client: Client, parameters: dict[str, Any]) -> bool:
    space = client._experiment.search_space
    return bool(space.check_membership(parameters))


@pytest.mark.slow
# The laboratory repeats each recipe with next to no noise.
@pytest.mark.filterwarnings("ignore:The noise of . of . means of readings is raised")
@pytest.mark.parametrize("name", CASES)
def test_candidates_are_of_the_search_space(name: str) -> None:
    client = laboratory(**CASES[name])
    asked = play(client, 5)
    assert all(is_within(client, each) for each in asked)
    assert [node_of(client, index) for index in range(5)] == 3 * ["Sobol"] + 2 * ["risk_averse"]
    assert len({tuple(each.values()) for each in asked}) >= 4  # a corner may be read again


@pytest.mark.slow
def test_constraints_are_respected() -> None:
    r"""What is best without one, much heat and stirring, is left alone."""
    free, bound = laboratory(), laboratory(constraints=["cost <= 0.6"])
    spent = [
        [each["heat"] + each["stir"] for each in play(client, 8)[3:]] for client in (free, bound)
    ]
    assert max(spent[0]) > 1.0
    assert sorted(spent[1])[2] < 0.65  # the median; the first ones may not know the cost


@pytest.mark.slow
def test_a_batch_and_pending_trials_are_kept_apart() -> None:
    client = laboratory()
    play(client, 3)
    batch = client.get_next_trials(max_trials=2)
    later = client.get_next_trials(max_trials=1)
    points = [(each["heat"], each["stir"] / 2) for each in (*batch.values(), *later.values())]
    assert torch.pdist(torch.tensor(points)).amin() >= 0.05 * 2**0.5 * (1 - 1e-4)
    for index, parameters in batch.items():
        complete(client, index, parameters)
    assert node_of(client, next(iter(later))) == "risk_averse"


@pytest.mark.slow
def test_failed_and_abandoned_trials_are_passed_over() -> None:
    client = laboratory()
    play(client, 3)
    (failed,) = client.get_next_trials(max_trials=1)
    client.mark_trial_failed(failed)
    (again,) = client.get_next_trials(max_trials=1).items()
    client.mark_trial_abandoned(again[0])
    (asked,) = play(client, 1)
    assert is_within(client, asked) and asked != dict(again[1])  # what was abandoned is left


@pytest.mark.slow
def test_who_asks_ahead_gets_initial_trials_until_half_are_completed() -> None:
    client = laboratory()  # three initial trials
    ahead = [client.get_next_trials(max_trials=1) for _ in range(5)]
    for trials in ahead[:2]:
        for index, parameters in trials.items():
            complete(client, index, parameters)
    play(client, 1)
    assert [node_of(client, index) for index in range(6)] == 5 * ["Sobol"] + ["risk_averse"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [None, under_uncertain_context("purity", HUMIDITY)])
def test_what_ax_shows_of_an_experiment(strategy: Any) -> None:
    client = laboratory(strategy=strategy)
    play(client, 7)
    best, prediction, *_ = client.get_best_parameterization()
    assert is_within(client, dict(best)) and "purity" in prediction
    (predicted,) = client.predict([{"heat": 0.3, "stir": 1.0}])
    assert predicted["purity"][1] > 0
    with warnings.catch_warnings():  # of plots
        warnings.simplefilter("ignore")
        assert client.compute_analyses(display=False)


@pytest.mark.slow
def test_old_data_and_a_baseline_are_learnt_from() -> None:
    client = laboratory(constraints=["cost <= 1.5 * baseline"])
    baseline = {"heat": 0.5, "stir": 1.0}
    complete(client, client.attach_baseline(baseline), baseline)
    for heat in (0.1, 0.9):
        old = {"heat": heat, "stir": 0.3}
        complete(client, client.attach_trial(old), old)
    (asked,) = play(client, 1)
    assert node_of(client, 3) == "risk_averse" and is_within(client, asked)


@pytest.mark.slow
def test_an_arm_that_comes_back_is_one_row_with_all_its_readings() -> None:
    client = laboratory()
    asked = play(client, 3)
    index = client.attach_trial(asked[0], arm_name="0_0")
    complete(client, index, asked[0])
    play(client, 1)
    adapter: Any = client._generation_strategy.adapter
    (dataset,) = (
        each
        for each in adapter.generator.surrogate.training_data
        if each.outcome_names == ["purity"]
    )
    assert dataset.counts.flatten().tolist() == [6, 3, 3]
    first, again = (outcome(trial, asked[0])["purity"][0] for trial in (0, 3))
    assert dataset.Y[0].item() == pytest.approx((first + again) / 2, abs=1e-9)
