r"""One experiment in DataFrames: the same as by hand in tensors, however it is written down."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.acquisition import risk_samples
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.frames import FrameExperiment, SingleExperiment
from botorch_risk.level_sets import level_set_search
from botorch_risk.papers import LevelSet, risk_kde, truvar
from botorch_risk.repeats import risk_averse_kg
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.strategies import Box
from tests.strategies.bakery import FEW, FLOURS, REPEATED, TABLE, baker, cost, told, twice

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def by_hand(make: Any = risk_averse_kg) -> SingleExperiment:
    limits = torch.tensor([[150.0, 0.0, 1.0], [250.0, 2.0, 8.0]], dtype=torch.double)
    return SingleExperiment(make(Box(limits, integers=[2], categories=[1]), 0, **REPEATED))


def codes(settings: pd.DataFrame) -> Tensor:
    numbers = settings.assign(flour=settings["flour"].map(FLOURS.index))
    return torch.tensor(numbers[["heat", "flour", "trays"]].to_numpy(float))


@pytest.mark.slow
def test_a_chemist_with_categories_does_what_tensors_do() -> None:
    frames, tensors = baker(), by_hand()
    for seed, size in enumerate((None, 2, None)):
        settings, X = frames.ask(size), tensors.ask(size)
        assert settings.columns.tolist() == list(TABLE)
        assert torch.equal(codes(settings), X)
        table = twice(settings, seed)
        table.loc[0, "rise"] = np.nan
        frames.tell(table)
        tensors.tell(codes(table), torch.tensor(table["rise"].to_numpy()))
    assert json.dumps(frames.strategy.state_dict()) == json.dumps(tensors.state_dict())
    recommended = frames.recommend()
    assert torch.equal(codes(recommended)[0], tensors.recommend())
    found = frames.predict(settings)
    (_, view), *_ = tensors.strategy.views
    outcome, noise, of_noise = tensors.strategy.method.predict(view, codes(settings).unsqueeze(0))
    ends = dict(zip(("", "_lower", "_upper"), (noise, *(of_noise or ())), strict=True))
    expected = {
        **{f"rise_{end}": each for end, each in outcome._asdict().items()},
        **{f"rise_noise{end}": each for end, each in ends.items()},
    }
    assert found.columns.tolist() == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values.detach().flatten(), rtol=1e-12)
    risk = tensors.strategy.method.predict_risk(view, codes(recommended).unsqueeze(0))
    assert [recommended[f"rise_risk{end}"].item() for end in ("", "_lower", "_upper")] == [
        each.item() for each in risk
    ]


def test_an_engineer_who_minimises_under_a_context_does_what_negatives_do() -> None:
    tail = ConditionalValueAtRisk(0.3)
    options: dict[str, Any] = {"risk_measure": tail, "num_initial": 6, **FEW}
    frames = FrameExperiment(
        {"speed": (0.0, 1.0)}, {"cost": "minimize"}, risk_kde, contexts={"wind": (0, 1)}, **options
    )
    tensors = SingleExperiment(risk_kde(UNIT, 0, context_bounds=UNIT, **options))
    for index in range(2):
        settings, X = frames.ask(), tensors.ask()
        assert torch.equal(torch.tensor(settings.to_numpy()), X)
        wind = np.linspace(0.1, 0.9, len(settings)) if index == 0 else np.full(len(settings), 0.4)
        frames.tell(settings.assign(wind=wind, cost=cost(settings["speed"], wind)))
        rows = torch.cat([X, torch.tensor(wind).unsqueeze(-1)], dim=-1)
        tensors.tell(rows, -cost(*rows.unbind(dim=-1)))
    best = frames.recommend()
    assert best["speed"].item() == tensors.recommend().item()
    bound = tensors.strategy.views[0][1].interval_belief
    decision = tensors.recommend().view(1, 1, 1)
    risks = -risk_samples(bound.model, bound.environment, tail, decision, 64).flatten()
    expected = [risks.mean(), *risks.quantile(torch.tensor([0.025, 0.975]).double())]
    found = best[["cost_risk", "cost_risk_lower", "cost_risk_upper"]].to_numpy().flatten()
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert found[1] < found[0] < found[2] and found[0] > 10  # the user's own sign
    elsewhere = pd.DataFrame({"speed": [0.2, 0.9], "wind": [0.5, 0.5]}, index=["calm", "fast"])
    table = frames.predict(elsewhere)
    assert table.index.tolist() == ["calm", "fast"]
    posterior = bound.model.posterior(torch.tensor(elsewhere.to_numpy()).unsqueeze(0))
    each = posterior.mean.squeeze(-1).squeeze(-2)  # of each sample of the hyperparameters
    variance = posterior.variance.squeeze(-1).squeeze(-2).mean(dim=0) + each.var(0, correction=0)
    mean, deviation = -each.mean(dim=0), variance.sqrt()
    for name, values in {"mean": mean, "upper": mean + 1.96 * deviation}.items():
        np.testing.assert_allclose(table[f"cost_{name}"], values.detach(), rtol=1e-6)
    over_winds = frames.predict(elsewhere[["speed"]])
    assert over_winds.columns.tolist() == ["cost_risk", "cost_risk_lower", "cost_risk_upper"]


def test_a_csv_with_holes_loses_no_row(tmp_path: Any) -> None:
    (tmp_path / "holes.csv").write_text(
        "wind,speed,cost\n0.1,0.2,10.4\n0.9,0.4,\n,0.6,10.9\n0.5,0.8,10.3\n0.3,0.1,10.2\n0.2,,10\n"
    )
    frame = pd.read_csv(tmp_path / "holes.csv")
    experiment = FrameExperiment(
        {"speed": (0.0, 1.0)},
        {"cost": "minimize"},
        risk_kde,
        contexts={"wind": (0.0, 1.0)},
        risk_measure=Expectation(),
        num_initial=4,
        **FEW,
    )
    with pytest.warns(
        match=r"Expected all settings and contexts .* Got 2 incomplete rows, such as 2"
    ):
        experiment.tell(frame)
    pd.testing.assert_frame_equal(experiment.data, frame[["speed", "wind", "cost"]])
    assert experiment.unused.to_dict() == {1: "cost", 2: "wind", 5: "speed"}
    history = experiment.strategy.history
    assert history.num_rows == 4 and history.has_outcome.sum() == 3  # the failed one has a wind
    experiment.tell(frame.dropna())
    assert len(experiment.data) == 9 and len(experiment.unused) == 3


def test_a_failure_marked_by_a_number_is_named_once() -> None:
    experiment = baker()
    first = twice(experiment.ask())
    few = first.iloc[:3].copy()
    few.loc[1, "rise"] = -9999.0  # of three rows nobody knows which is absurd
    experiment.tell(few)
    with pytest.warns(InputDataWarning, match=r"Got -9999 in the rows \[1\] of `data`.* empty"):
        experiment.tell(first.iloc[3:])
    again, saved = twice(experiment.ask(2), seed=1), experiment.state_dict()
    experiment = baker()
    experiment.load_state_dict(saved)
    experiment.tell(again)
    with pytest.warns(
        InputDataWarning, match=r"outcomes of 'rise'.* Got 1e\+06 in the rows \[16\]"
    ):
        experiment.tell(again.iloc[:1].assign(rise=1e6))


def test_a_list_of_settings_is_classified_as_in_tensors() -> None:
    settings = pd.DataFrame({"east": np.arange(12.0), "pier": 1.0}, index=list("abcdefghijkl"))
    goal: dict[str, Any] = {"goal": LevelSet(90.0), "noise": 1.0, "num_initial": 4}
    frames = FrameExperiment(settings, {"index": None}, truvar, **goal)
    tensors = SingleExperiment(truvar(torch.tensor(settings.to_numpy()), 0, **goal))
    for _ in range(3):
        asked = frames.ask()
        assert torch.equal(torch.tensor(asked.to_numpy()), tensors.ask())
        pd.testing.assert_frame_equal(asked, settings.loc[asked.index])  # by their names
        index = 60 + 5 * asked["east"]
        frames.tell(asked.assign(index=index))
        tensors.tell(tensors.ask(), torch.tensor(index.to_numpy()))
    found, expected = frames.classify(), tensors.classify()
    assert found.index.tolist() == settings.index.tolist()
    assert found.columns.tolist() == ["east", "pier", "index_class", "index_probability"]
    for name, mask in (("above", expected.high), ("below", expected.low)):
        assert (found["index_class"] == name).tolist() == mask.tolist()
    assert found["index_probability"].tolist() == expected.probability.tolist()
    assert {"above", "below"} <= set(found["index_class"])
    assert frames.recommend().index.tolist() == ["l"]


def test_several_levels_have_a_class_each() -> None:
    days = DiscreteEnvironment(UNIT)
    search = FrameExperiment(
        pd.DataFrame({"x": np.linspace(0, 1, 5)}),
        {"y": None},
        level_set_search,
        contexts={"w": (0.0, 1.0)},
        environment=days,
        risk_measure=Expectation(),
        goal=[LevelSet(0.2), LevelSet(0.6)],
        w_is_chosen=True,
        num_initial=5,
    )
    asked = search.ask()
    assert asked.columns.tolist() == ["x", "w"]  # w is chosen
    search.tell(asked.assign(y=asked["x"]))
    found = search.classify()
    assert found.columns.tolist()[1:] == [
        "y_class_0",
        "y_probability_0",
        "y_class_1",
        "y_probability_1",
    ]
    assert (found["y_probability_0"] >= found["y_probability_1"]).all()


def predictions(experiment: FrameExperiment, settings: pd.DataFrame) -> np.ndarray:
    return experiment.predict(settings).to_numpy()


@pytest.fixture(scope="module")
def readings() -> pd.DataFrame:
    return twice(baker().ask())


def test_the_order_of_columns_means_nothing(readings: pd.DataFrame) -> None:
    one, other = (
        told(baker(), readings),
        told(baker(), readings[["trays", "rise", "flour", "heat"]]),
    )
    pd.testing.assert_frame_equal(one.ask(), other.ask())
    pd.testing.assert_frame_equal(one.recommend(), other.recommend())
    pd.testing.assert_frame_equal(one.data, other.data)


def test_the_order_of_rows_means_nothing(readings: pd.DataFrame) -> None:
    one, other = told(baker(), readings), told(baker(), readings.iloc[::-1])
    settings = readings[list(TABLE)]
    np.testing.assert_allclose(
        predictions(one, settings), predictions(other, settings), rtol=1e-3, atol=1e-3
    )
    pd.testing.assert_frame_equal(one.recommend()[list(TABLE)], other.recommend()[list(TABLE)])


def test_the_order_of_labels_means_nothing(readings: pd.DataFrame) -> None:
    r"""Of the fit: draws of lengthscales belong to columns."""
    reordered = {**TABLE, "flour": ["oats", "rye", "wheat"]}
    options = {**REPEATED, "num_samples": 0}
    other = FrameExperiment(reordered, {"rise": "maximize"}, risk_averse_kg, **options)
    one, other = told(baker(num_samples=0), readings), told(other, readings)
    settings = readings[list(TABLE)]
    np.testing.assert_allclose(
        predictions(one, settings), predictions(other, settings), rtol=1e-3, atol=1e-3
    )
    pd.testing.assert_frame_equal(one.recommend()[list(TABLE)], other.recommend()[list(TABLE)])


def test_other_units_are_other_numbers_for_the_same(readings: pd.DataFrame) -> None:
    r"""Fahrenheit for Celsius, dozens of trays for trays, and a share for percent."""
    units = {"heat": (302.0, 482.0), "flour": FLOURS, "trays": (12, 96, 12)}
    other = FrameExperiment(
        units, {"rise": "maximize"}, risk_averse_kg, **{**REPEATED, "risk_aversion": 50.0}
    )

    def converted(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(heat=32 + 1.8 * table["heat"], trays=12 * table["trays"])

    one, settings = told(baker(), readings), readings[list(TABLE)]
    told(other, converted(readings).assign(rise=readings["rise"] / 100))
    np.testing.assert_allclose(
        predictions(one, settings), 100 * predictions(other, converted(settings)), rtol=1e-3
    )
    pd.testing.assert_frame_equal(
        converted(one.recommend()[list(TABLE)]), other.recommend()[list(TABLE)], check_dtype=False
    )
    assert other.ask().columns.tolist() == list(TABLE)


@pytest.mark.slow
def test_minimising_is_maximising_the_negative(readings: pd.DataFrame) -> None:
    least, most = baker({"rise": "minimize"}), baker()
    told(least, readings.assign(rise=-readings["rise"]))
    told(most, readings)
    pd.testing.assert_frame_equal(least.ask(3), most.ask(3))
    best, negative = least.recommend(), most.recommend()
    for one, other in (("", ""), ("_lower", "_upper"), ("_upper", "_lower")):
        assert best[f"rise_risk{one}"].item() == -negative[f"rise_risk{other}"].item()
    found, mirrored = (each.predict(readings) for each in (least, most))
    for one, other in (("_mean", "_mean"), ("_lower", "_upper"), ("_upper", "_lower")):
        assert (found[f"rise{one}"] == -mirrored[f"rise{other}"]).all()
    noise = [name for name in found if "noise" in name]
    pd.testing.assert_frame_equal(found[noise], mirrored[noise])


def test_data_are_as_they_were_told(readings: pd.DataFrame) -> None:
    experiment = told(baker(), readings)
    pd.testing.assert_frame_equal(experiment.data, readings)
    experiment.tell(readings.iloc[[0]])
    assert len(experiment.data) == len(readings) + 1
