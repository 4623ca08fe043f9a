r"""A mistake in the description ends the first request for a candidate."""

from typing import Any

import pytest
from ax.exceptions.core import UnsupportedError, UserInputError

from botorch_risk.ax import (
    best_arm,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
    with_random_exploration,
)
from botorch_risk.ax.nodes import KnownNames
from botorch_risk.level_sets.with_ax import level_set, risk_level_set
from tests.ax.laboratory import HUMIDITY, TABLE, complete, laboratory, play

WEATHER = {"purty": ([0.0, 1.0], [0.5, 0.5])}


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (risk_averse("purty"), r"a metric .* objective is \['purity'\]. Got 'purty'"),
        (under_uncertain_context("purty", HUMIDITY), r"a metric .* Got 'purty'"),
        (value_at_risk(WEATHER), r"a parameter .* are \['heat', 'stir'\]. Got 'purty'"),
        (under_perturbed_inputs({"purty": 0.1}), r"a parameter .* are \['heat', 'stir'\]. Got 'p"),
        (with_random_exploration(risk_averse("purty")), r"a metric .* Got 'purty'"),
    ],
)
def test_a_name_that_the_experiment_does_not_have_ends_the_first_request(
    strategy: Any, message: str
) -> None:
    client = laboratory(strategy=strategy)
    with pytest.raises(UserInputError, match=message):
        client.get_next_trials(max_trials=1)


STRATEGIES = {
    "risk_averse": risk_averse("purity"),
    "under_uncertain_context": under_uncertain_context("purity", HUMIDITY),
    "value_at_risk": value_at_risk({"stir": ([0.5, 1.0], [0.5, 0.5])}),
    "under_perturbed_inputs": under_perturbed_inputs({"heat": 0.1}),
    "level_set": level_set(0.5),
    "risk_level_set": risk_level_set("purity", HUMIDITY, threshold=0.5),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_two_objectives_and_constraints_on_a_sum_are_refused(name: str) -> None:
    for objective, constraints, message in (
        ("purity, cost", [], r"Expected one objective for .* Got 2: 'purity, cost'"),
        ("purity", ["cost + time <= 0.9"], r"of one metric each. Got 'cost \+ time"),
    ):
        client = laboratory(
            objective=objective, constraints=constraints, strategy=STRATEGIES[name].clone_reset()
        )
        with pytest.raises(UnsupportedError, match=message):
            client.get_next_trials(max_trials=1)
        index = client.attach_trial({"heat": 0.5, "stir": 1.0})
        client.complete_trial(index, {"purity": 1.0, "cost": 1.0, "time": 1.0})
        with pytest.raises(UnsupportedError, match=message):
            best_arm(client)


def test_a_sum_of_metrics_is_one_objective() -> None:
    client = laboratory(objective="purity + cost", strategy=level_set(0.5))
    assert client.get_next_trials(max_trials=1)


def test_a_level_set_has_no_outcome_constraints() -> None:
    for name in ("level_set", "risk_level_set"):
        client = laboratory(constraints=["cost <= 1"], strategy=STRATEGIES[name].clone_reset())
        with pytest.raises(UnsupportedError, match=r"no outcome constraint: .* Got 'cost <= 1"):
            client.get_next_trials(max_trials=1)


def test_a_context_is_looked_for_once_a_trial_is_completed() -> None:
    strategy = under_uncertain_context("purity", {"humidty": (0.0, 1.0)})
    client = laboratory(strategy=strategy)
    ((index, parameters),) = client.get_next_trials(max_trials=1).items()
    complete(client, index, parameters)
    with pytest.raises(UserInputError, match=r"a context .* 'humidity'\]. Got 'humidty'"):
        client.get_next_trials(max_trials=1)


def test_a_recommendation_checks_names_too() -> None:
    client = laboratory(strategy=risk_averse("purty"))
    for heat, values in TABLE[:2]:
        index = client.attach_trial({"heat": heat, "stir": 1.0})
        client.complete_trial(index, {"purity": values[0]})
    with pytest.raises(UserInputError, match=r"a metric .* Got 'purty'"):
        best_arm(client)


def test_a_context_may_be_new_with_the_first_trial() -> None:
    client = laboratory(strategy=under_uncertain_context("purity", {"light": (0.0, 1.0)}))
    for index in client.get_next_trials(max_trials=1):
        client.complete_trial(index, {"purity": 1.0, "light": 0.5})
    play(client, 1)
    assert KnownNames("after", contexts=["light"]).is_met(client._experiment, None)  # type: ignore[arg-type]
