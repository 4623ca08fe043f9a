import statistics
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.analysis_card import NotApplicableStateAnalysisCard

from botorch_risk.acquisition import qRiskAverseUpperConfidenceBound
from botorch_risk.ax import NoiseSlicePlot, best_arm, readings, risk_averse
from botorch_risk.ax.fitted import model_of
from botorch_risk.level_sets.with_ax import level_set
from tests.ax.laboratory import PARAMETERS, TABLE, adapter_of, card_of, laboratory, play, with_table

SLICE = {"heat": 0.25, "stir": 1.0}


def model_of_purity(client: Any) -> Any:
    return model_of(adapter_of(client), "purity")


def curve_and_arms(client: Any, analysis: NoiseSlicePlot) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = card_of(client, analysis).df
    return table[~table["sampled"]], table[table["sampled"]]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.slow
def test_the_curve_is_the_noise_of_the_model_at_the_recommended_arm(sign: float) -> None:
    client = with_table(sign, "purity" if sign > 0 else "-purity")
    curve, _ = curve_and_arms(client, NoiseSlicePlot("heat"))
    stir = best_arm(client).parameters["stir"]
    X = torch.tensor([[heat, stir] for heat in curve["heat"]], dtype=torch.double)
    assert (X[0, 0], X[-1, 0], stir) == (0.0, 1.0, 1.0)
    model = model_of_purity(client)
    with torch.no_grad():  # of one reading: what it adds to the variance of the mean
        noisy, quiet = (
            model.posterior(X, observation_noise=each).variance for each in (True, False)
        )
        draws = model.noise_posterior(X[::20]).rsample(torch.Size([40_000])).sqrt().squeeze(-1)
    expected = (noisy - quiet).clamp_min(0).sqrt().squeeze(-1)
    np.testing.assert_allclose(curve["purity_noise_sd"], expected, rtol=1e-5, atol=1e-7)
    for side, level in (("lower", 0.025), ("upper", 0.975)):
        found = curve[f"purity_noise_sd_{side}"][::20]
        np.testing.assert_allclose(found, draws.quantile(level, dim=0), rtol=0.05)


def test_points_are_the_spread_of_the_readings_of_each_arm() -> None:
    client = with_table()
    again = [2.0, 1.2, 1.7]
    index = client.attach_trial({"heat": 0.7, "stir": 1.0})
    client.complete_trial(index, readings({"purity": again}))
    index = client.attach_trial({"heat": 0.6, "stir": 1.0})
    client.complete_trial(index, {"purity": 1.4})  # a single reading
    _, arms = curve_and_arms(client, NoiseSlicePlot("heat"))
    values = {heat: [*rows, *(again if heat == 0.7 else [])] for heat, rows in TABLE}
    assert arms["heat"].tolist() == [*values, 0.6]
    expected = [statistics.stdev(each) for each in values.values()]
    np.testing.assert_allclose(arms["purity_observed_sd"], [*expected, np.nan], rtol=1e-6)
    assert arms["purity_count"].tolist() == [3, 3, 3, 6, 3, 3, 1]
    assert arms["arm_name"].tolist() == ["0_0", "1_0", "2_0", "3_0", "4_0", "5_0", "7_0"]
    assert arms["trial_index"].tolist() == [0, 1, 2, 3, 4, 5, 7]


@pytest.mark.slow
def test_predictions_of_arms_are_at_the_arms_themselves() -> None:
    client = laboratory(strategy=risk_averse("purity"))
    play(client, 5)
    curve, arms = curve_and_arms(client, NoiseSlicePlot("heat", fixed_values={"stir": 0.3}))
    model = model_of_purity(client)
    X = torch.tensor([[0.0, 0.3], [1.0, 0.3]], dtype=torch.double)
    for rows, points in ((arms, model.train_X), (curve.iloc[[0, -1]], X)):
        expected = model.predicted_noise(points).sqrt().squeeze(-1).tolist()
        assert rows["purity_noise_sd"].tolist() == pytest.approx(expected)


def test_values_are_in_the_units_of_the_user() -> None:
    heat = RangeParameterConfig(
        name="heat", bounds=(0.01, 1.0), parameter_type="float", scaling="log"
    )
    vessel = ChoiceParameterConfig(
        name="vessel", values=[1.0, 2.5, 4.0], parameter_type="float", is_ordered=True
    )
    speed = RangeParameterConfig(name="speed", bounds=(1, 5), parameter_type="int")
    client = laboratory(parameters=(heat, vessel, speed), strategy=risk_averse("purity"))
    asked = play(client, 5)
    for name, values in {"vessel": [1.0, 2.5, 4.0], "speed": [1, 2, 3, 4, 5]}.items():
        curve, arms = curve_and_arms(client, NoiseSlicePlot(name))
        assert curve[name].tolist() == values
        assert arms[name].tolist() == [each[name] for each in asked]
    card = card_of(client, NoiseSlicePlot("heat", fixed_values={"vessel": 2.5}))
    curve = card.df[~card.df["sampled"]]
    assert np.ptp(np.diff(np.log(curve["heat"]))) < 1e-9
    assert card.get_figure().layout.xaxis.type == "log"
    speed_of_best = best_arm(client).parameters["speed"]
    assert f" at vessel = 2.5, speed = {speed_of_best}, with" in card.subtitle


def test_the_figure_shows_band_curve_and_points() -> None:
    card = card_of(with_table(), NoiseSlicePlot("heat"))
    assert card.title == "Noise of purity vs. heat"
    area, line, points = card.get_figure().data
    assert [each.name for each in (area, line, points)] == [
        "95 % band",
        "predicted",
        "readings of an arm",
    ]
    assert (line.mode, points.mode, area.fill) == ("lines", "markers", "toself")


def test_where_there_is_no_learnt_noise() -> None:
    client = laboratory(strategy=level_set(0.5, num_initial=2))
    play(client, 2)
    assert card_of(client, NoiseSlicePlot("heat")).blob == (
        "Expected a model that learns the noise, such as `risk_averse`'s MeanVarianceGP. Got a "
        "SingleTaskGP of 'purity'."
    )


@pytest.mark.slow
def test_a_strategy_without_a_recommendation_needs_all_fixed_values() -> None:
    strategy = risk_averse("purity", acquisition=qRiskAverseUpperConfidenceBound)
    client = laboratory(strategy=strategy)
    play(client, 5)
    found = card_of(client, NoiseSlicePlot("heat"))
    assert "a confidence bound of a risk. Got qRiskAverseUpper" in found.blob
    assert len(card_of(client, NoiseSlicePlot("heat", fixed_values={"stir": 1.0})).df) == 105


@pytest.mark.parametrize(
    ("analysis", "message"),
    [
        (NoiseSlicePlot("water"), "a parameter in ['heat', 'stir', 'dye']. Got 'water'."),
        (NoiseSlicePlot("heat", fixed_values={"water": 1.0}), "a parameter in "),
        (NoiseSlicePlot("dye"), "an ordered choice on the x-axis. Got the ChoiceParameter 'dye'."),
        (NoiseSlicePlot("heat", fixed_values={"stir": 3.0}), "'stir' takes in the search space. G"),
        (NoiseSlicePlot("heat", fixed_values={"dye": "x"}), "'dye' takes in the search space. Got"),
    ],
)
def test_a_slice_that_the_search_space_does_not_have(
    analysis: NoiseSlicePlot, message: str
) -> None:
    dye = ChoiceParameterConfig("dye", ["a", "b", "c"], parameter_type="str", is_ordered=False)
    client = laboratory(parameters=(*PARAMETERS, dye))
    for heat, values in TABLE[:3]:
        index = client.attach_trial({"heat": heat, "stir": 1.0, "dye": "a"})
        client.complete_trial(index, readings({"purity": values}))
    found = card_of(client, analysis)
    assert isinstance(found, NotApplicableStateAnalysisCard)
    assert message in found.blob
