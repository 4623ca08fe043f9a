r"""What a DataFrame experiment keeps, and what fits it."""

import json
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.extras import MissingExtraError
from botorch_risk.frames import FrameExperiment
from botorch_risk.level_sets import level_set_search
from botorch_risk.papers import LevelSet, Maximize, risk_kde, truvar
from botorch_risk.repeats import adaptive_repeats
from botorch_risk.risk import Expectation, ShareAbove
from botorch_risk.strategies import Box, Strategy, random_search, risk_search
from tests.strategies.bakery import FEW, FLOURS, TABLE, baker, told, twice

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


@pytest.fixture(scope="module")
def readings() -> pd.DataFrame:
    return twice(baker().ask())


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.slow
def test_what_is_saved_continues_with_the_same_suggestions(
    readings: pd.DataFrame, size: int | None
) -> None:
    r"""Also while some are asked for, and a row that is told then comes from them."""
    experiment, resumed = told(baker(), readings), baker()
    asked = experiment.ask(size)
    resumed.load_state_dict(json.loads(json.dumps(experiment.state_dict())))
    pd.testing.assert_frame_equal(resumed.ask(), asked)
    pd.testing.assert_frame_equal(resumed.data, experiment.data)
    for each in (experiment, resumed):
        each.tell(twice(asked, seed=1))
    pd.testing.assert_frame_equal(resumed.ask(), experiment.ask())
    pd.testing.assert_frame_equal(resumed.recommend(), experiment.recommend())
    assert json.dumps(resumed.state_dict()) == json.dumps(experiment.state_dict())


def test_settings_that_were_asked_for_again_are_a_round_also_after_loading() -> None:
    r"""Where there is nothing else to ask for; told unasked, they would be further readings."""

    def search() -> FrameExperiment:
        places = pd.DataFrame({"x": [0.0, 0.5, 1.0]})
        return FrameExperiment(
            places, {"y": None}, truvar, goal=Maximize(), noise=1.0, num_initial=3
        )

    experiment, resumed, unasked = search(), search(), search()
    first = experiment.ask().assign(y=[0.0, 0.3, 0.1])
    for each in (experiment, unasked):
        each.tell(first)
    second = experiment.ask(2).assign(y=[0.2, 0.1])
    assert second["x"].isin(first["x"]).all()
    resumed.load_state_dict(json.loads(json.dumps(experiment.state_dict())))
    for each in (experiment, resumed, unasked):
        each.tell(second)
    assert experiment.strategy.history.rounds.tolist() == [0, 0, 0, 1, 1]
    assert resumed.state_dict() == experiment.state_dict()
    assert unasked.strategy.history.rounds.tolist() != [0, 0, 0, 1, 1]


@pytest.mark.parametrize("settings", [[0.0, np.nan, 1.0], []])
def test_listed_settings_have_no_hole(settings: list[float]) -> None:
    places = pd.DataFrame({"x": np.array(settings)})
    with pytest.raises(ValueError, match="complete settings"):
        FrameExperiment(places, {"y": None}, truvar, goal=Maximize(), noise=1.0, num_initial=3)


def test_weights_of_listed_settings_go_by_their_names() -> None:
    places = pd.DataFrame({"x": np.linspace(0, 1, 9)}, index=list("abcdefghi"))
    weights = pd.Series(np.geomspace(1, 100, 9), index=places.index)

    def asked(given: Any) -> pd.DataFrame:
        options: dict[str, Any] = {"goal": LevelSet(0.0), "noise": 1.0, "num_initial": 3}
        found = FrameExperiment(places, {"y": None}, truvar, weights=given, **options)
        found.tell(found.ask().assign(y=[0.0, 0.3, 0.1]))
        return found.ask(3)

    expected = asked(weights.to_numpy())
    pd.testing.assert_frame_equal(asked(weights[::-1]), expected)
    assert not asked(weights.to_numpy()[::-1].copy()).equals(expected)
    with pytest.raises(InputDataError, match="names of `weights`"):
        asked(weights.reset_index(drop=True))


def test_a_state_of_other_columns_is_refused(readings: pd.DataFrame) -> None:
    experiment = told(baker(), readings)
    before = experiment.state_dict()
    with pytest.raises(ValueError, match=r"Expected minimized=\['rise'\].* Got minimized=\[\]"):
        experiment.load_state_dict(baker({"rise": "minimize"}).state_dict())
    with pytest.raises(ValueError, match="Expected a state from `state_dict"):
        experiment.load_state_dict({"rows": []})
    with pytest.raises(ValueError, match="num_initial"):
        experiment.load_state_dict(baker(num_initial=5).state_dict())
    assert experiment.state_dict() == before


def test_contexts_may_have_labels_if_their_distribution_is_known() -> None:
    machines = DiscreteEnvironment(UNIT, categories=[0])
    experiment = FrameExperiment(
        {"x": (0.0, 1.0)},
        {"y": "maximize"},
        partial(risk_search, w_is_chosen=True),
        contexts={"machine": ["old", "new"]},
        environment=machines,
        risk_measure=Expectation(),
        num_initial=4,
        **FEW,
    )
    asked = experiment.ask()
    assert set(asked["machine"]) == {"old", "new"}
    experiment.tell(asked.assign(y=asked["x"] + (asked["machine"] == "new")))
    assert set(experiment.ask()["machine"]) <= {"old", "new"}


def test_a_context_that_cannot_occur_is_named() -> None:
    experiment = FrameExperiment(
        {"x": (0.0, 1.0)},
        {"y": "maximize"},
        risk_search,
        contexts={"wind": (0.0, 1.0)},
        environment=DiscreteEnvironment(UNIT),
        risk_measure=Expectation(),
        num_initial=3,
    )
    rows = experiment.ask().assign(wind=[0.0, 0.4, None], y=1.0)
    with pytest.raises(InputDataError, match=r"Got \{'wind': 0.4\} in row 1"):
        experiment.tell(rows)
    assert experiment.data.empty


def test_a_search_that_has_finished_asks_for_nothing() -> None:
    places = pd.DataFrame({"x": np.linspace(0, 1, 6)})
    options: dict[str, Any] = {"goal": LevelSet(4.5), "noise": 1e-4, "num_initial": 6}
    experiment = FrameExperiment(places, {"y": None}, truvar, **options)
    experiment.tell(experiment.ask().assign(y=lambda asked: 10 * asked["x"]))
    assert experiment.ask().shape == (0, 1)
    assert experiment.classify()["y_class"].tolist() == 3 * ["below"] + 3 * ["above"]


@pytest.mark.parametrize(
    ("context", "points", "message"),
    [
        (["dry", "wet"], [0.0, 1.0, 2.0], r"codes \[0.0, 1.0\].*'dry', 'wet'\]. Got \[0.0, 1.0, 2"),
        (["a", "b", "c", "d"], [0.0, 1.0, 2.0], r"codes \[0.0, 1.0, 2.0, 3.0\].* Got \[0.0, 1"),
        (["a", "b"], [1.0, 2.0], r"Got \[1.0, 2.0\]"),
        ((0.0, 1.0), [0.0, 0.5, 7.0], r"'road' from 0 to 1. Got \[0.0, 0.5, 7.0\]"),
        ((20.0, 80.0, 5.0), [20.0, 40.0], r"steps of 5, steps counted from 0. Got \[20.0, 40.0\]"),
    ],
)
def test_labels_and_ranges_of_contexts_are_those_of_the_environment(
    context: Any, points: list[float], message: str
) -> None:
    values = torch.tensor(points, dtype=torch.double).unsqueeze(-1)
    days = DiscreteEnvironment(values, categories=[0] if isinstance(context, list) else [])
    with pytest.raises(ValueError, match=message):
        FrameExperiment(
            {"v": (0.0, 1.0)},
            {"z": "maximize"},
            risk_search,
            contexts={"road": context},
            environment=days,
            risk_measure=Expectation(),
        )


def test_without_a_model_the_recommendation_has_no_interval() -> None:
    experiment = FrameExperiment(TABLE, {"rise": "maximize"}, random_search, num_initial=3)
    experiment.tell(experiment.ask().assign(rise=[1.0, 3.0, 2.0]))
    pd.testing.assert_frame_equal(
        experiment.recommend(), experiment.data[list(TABLE)].iloc[[1]].reset_index(drop=True)
    )


def test_nothing_is_predicted_of_nothing() -> None:
    experiment = baker()
    for answer in (experiment.recommend, lambda: experiment.predict(experiment.ask())):
        with pytest.raises(ValueError, match="Got 0 of 6 outcomes"):
            answer()
    experiment.tell(experiment.ask().assign(rise=np.nan))
    with pytest.raises(ValueError, match="Expected readings of each outcome"):
        experiment.recommend()
    assert len(experiment.unused) == 6
    with pytest.raises(UnsupportedError, match="Expected a strategy for a level set"):
        told(baker(), twice(baker().ask())).classify()


def test_without_pandas_it_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"botorch_risk\[frames\]"):
        baker()


MISFITS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"outcomes": {"rise": "maximize", "b": None}}, ValueError, r"1 outcomes. Got \['rise'"),
    ({"outcomes": {"rise": "max"}}, ValueError, "or None. Got 'rise': 'max'"),
    ({"outcomes": {}}, ValueError, "at least one parameter and one outcome"),
    ({"outcomes": {"heat": None}}, ValueError, "Expected each name once.* Got 'heat'"),
    ({"contexts": {"rise_mean": (0, 1)}}, ValueError, "Got 'rise_mean'"),
    ({"contexts": {"rise_risk_lower": (0, 1)}}, ValueError, "Got 'rise_risk_lower'"),
    ({"contexts": {"wind": (0, 1)}}, UnsupportedError, "Expected a strategy with the argument"),
    ({"contexts": {1: (0, 1)}}, ValueError, r"`contexts` to be named by strings. Got \{1: "),
    ({"units": {"hat": "K"}}, ValueError, "Expected units of the columns .* Got 'hat'"),
    ({"seed": 0.5}, TypeError, "Expected `seed`"),
]


@pytest.mark.parametrize(("options", "error", "message"), MISFITS)
def test_what_does_not_fit_is_said(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        baker(**options)


def test_strategies_that_do_not_fit_the_columns_are_refused() -> None:
    line = {"x": (0.0, 1.0)}
    with pytest.raises(UnsupportedError, match=r"the columns \['x'\]. Its points have 2 columns"):
        FrameExperiment(
            line, {"y": "maximize"}, adaptive_repeats, num_repeats=[2], risk_aversion=1.0
        )
    with pytest.raises(UnsupportedError, match="Got 'w', which has steps"):
        FrameExperiment(
            line, {"y": None}, risk_kde, contexts={"w": (0, 4, 1)}, risk_measure=Expectation()
        )
    with pytest.raises(UnsupportedError, match=r"Expected an outcome .* ShareAbove.* Got 'y'"):
        FrameExperiment(
            line, {"y": "minimize"}, risk_kde, contexts={"w": (0, 1)}, risk_measure=ShareAbove(0.5)
        )

    def of_numbers(box: Box, seed: int) -> Strategy:
        domain = torch.arange(len(FLOURS)).double().unsqueeze(-1)
        return truvar(domain, seed, goal=Maximize(), noise=1.0, num_initial=2)

    with pytest.raises(UnsupportedError, match=r"takes categories, for \['flour'\]"):
        FrameExperiment({"flour": FLOURS}, {"y": None}, of_numbers)


def test_labels_are_classified() -> None:
    experiment = FrameExperiment(
        {"flour": FLOURS},
        {"y": None},
        level_set_search,
        contexts={"w": (0.0, 1.0)},
        risk_measure=Expectation(),
        goal=LevelSet(0.5),
        num_initial=9,
    )
    asked = experiment.ask().assign(w=np.linspace(0, 1, 9))
    experiment.tell(asked.assign(y=asked["flour"].eq(FLOURS[1]) + 0.01 * asked["w"]))
    found = experiment.classify().set_index("flour")["y_class"]
    assert sorted(found.index) == sorted(FLOURS)
    assert found[FLOURS[1]] == "above" and (found.drop(FLOURS[1]) == "below").all()
