from __future__ import annotations

import pytest

from botorch_risk.ax import risk_averse
from tests.ax.laboratory import laboratory, node_of, play


def test_more_risk_aversion_goes_where_the_noise_is_small() -> None:
    asked = [
        play(laboratory(strategy=risk_averse("purity", risk_aversion=weight, num_initial=6)), 12)
        for weight in (0.0, 500.0)
    ]
    neutral, averse = (sum(each["stir"] for each in trials[-3:]) / 3 for trials in asked)
    assert averse < neutral - 0.5


def test_attached_trials_count_as_initial_ones() -> None:
    client = laboratory()
    for heat in (0.1, 0.5, 0.9):
        parameters = {"heat": heat, "stir": heat}
        index = client.attach_trial(parameters)
        client.complete_trial(index, {"purity": (heat, 0.1), "purity_count": 3})
    play(client, 1)
    assert node_of(client, 3) == "risk_averse"


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"`risk_aversion` to be finite and >= 0. Got -1"):
        risk_averse("y", risk_aversion=-1.0)
    with pytest.raises(ValueError, match=r"at least 1 initial trial. Got num_initial=0"):
        risk_averse("y", num_initial=0)
