import math

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from botorch_risk.ax import risk_averse
from botorch_risk.level_sets.with_ax import level_set, risk_level_set
from tests.ax.laboratory import laboratory, node_of, play


@pytest.mark.slow
def test_more_risk_aversion_goes_where_the_noise_is_small() -> None:
    asked = [
        play(laboratory(strategy=risk_averse("purity", risk_aversion=weight, num_initial=6)), 12)
        for weight in (0.0, 500.0)
    ]
    neutral, averse = (sum(each["stir"] for each in trials[-3:]) / 3 for trials in asked)
    assert averse < neutral - 0.5


@pytest.mark.slow
def test_attached_trials_count_as_initial_ones() -> None:
    client = laboratory()
    for heat in (0.1, 0.5, 0.9):
        parameters = {"heat": heat, "stir": heat}
        index = client.attach_trial(parameters)
        client.complete_trial(index, {"purity": (heat, 0.1), "purity_count": 3})
    play(client, 1)
    assert node_of(client, 3) == "risk_averse"


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["purity", "-purity"])
def test_a_level_set_is_found_on_its_edge(objective: str) -> None:
    client = Client()
    client.configure_experiment(
        parameters=[RangeParameterConfig("heat", (0.0, 1.0), parameter_type="float")]
    )
    client.configure_optimization(objective=objective)
    client.set_generation_strategy(level_set(threshold=2.5, num_initial=4, seed=1))
    asked = []
    for _ in range(9):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            asked.append(float(parameters["heat"]))
            client.complete_trial(index, {"purity": 2 + asked[-1] ** 2})
    distances = [abs(heat - 0.5**0.5) for heat in asked[4:]]
    assert min(distances) < 0.02 and sorted(distances)[2] < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["purity", "-purity"])
def test_the_level_set_of_a_risk_is_found_on_its_edge(objective: str) -> None:
    r"""The expectation over a wind that is drawn from 0, 1 is `2 + heat^2 + heat / 2`."""
    client = Client()
    client.configure_experiment(
        parameters=[RangeParameterConfig("heat", (0.0, 1.0), parameter_type="float")]
    )
    client.configure_optimization(objective=objective)
    client.configure_tracking_metrics(["wind"])
    winds = {"wind": (0.0, 1.0)}
    client.set_generation_strategy(risk_level_set("purity", winds, threshold=2.5, num_initial=6))
    asked, draws = [], torch.Generator().manual_seed(0)
    for _ in range(14):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            asked.append(float(parameters["heat"]))
            wind = torch.rand(1, generator=draws).item()
            purity = 2 + asked[-1] ** 2 + wind * asked[-1]
            client.complete_trial(index, {"purity": purity, "wind": wind})
    distances = [abs(heat - 0.5) for heat in asked[6:]]
    assert min(distances) < 0.05 and sorted(distances)[4] < 0.25


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"a finite `threshold`. Got nan"):
        level_set(threshold=math.nan)
    with pytest.raises(ValueError, match=r"a finite `threshold`. Got inf"):
        risk_level_set("y", {"w": (0.0, 1.0)}, threshold=math.inf)
    with pytest.raises(ValueError, match=r"`risk_aversion` to be finite and >= 0. Got -1"):
        risk_averse("y", risk_aversion=-1.0)
    with pytest.raises(ValueError, match=r"`num_initial` to be at least 1\. Got 0"):
        risk_averse("y", num_initial=0)
