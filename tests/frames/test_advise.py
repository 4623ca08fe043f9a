r"""Readings of any package lead to one advice, and it is not the luckiest reading."""

from typing import Any

import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from pandas.testing import assert_frame_equal

from botorch_risk.frames import Advice, FrameExperiment, advise
from botorch_risk.frames.foreign_readings import foreign_readings
from botorch_risk.papers import rahbo
from botorch_risk.repeats import risk_averse_kg
from botorch_risk.risk import ConditionalValueAtRisk

BOUNDS = torch.tensor([[0.0, -1.0], [2.0, 1.0]], dtype=torch.double)
SETTINGS = {"x0": (0.0, 2.0), "x1": (-1.0, 1.0)}
FAST = {"num_restarts": 2, "raw_samples": 16, "num_samples": 4}


def value(X: torch.Tensor) -> torch.Tensor:
    return -(((X - torch.tensor([1.2, 0.3])) ** 2).sum(dim=-1))


def readings(num: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    stream = torch.Generator().manual_seed(1)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * torch.rand(num, 2, generator=stream).double()
    return X, value(X) + 0.3 * torch.randn(num, generator=stream).double()


def table(**columns: Any) -> pd.DataFrame:
    X, y = readings()
    return pd.DataFrame(X.tolist(), columns=["x0", "x1"]).assign(y=y.tolist(), **columns)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(readings(), settings=BOUNDS, batch_size=2, **FAST)


def alike(first: Advice, second: Advice, name: str = "y") -> None:
    assert first.verdict == second.verdict
    for part in ("anywhere", "tried", "luckiest", "next"):
        one, other = (getattr(each, part) for each in (first, second))
        other = other.rename(columns=lambda column: column.replace(name, "y"))
        assert_frame_equal(one, other[one.columns])


def test_the_best_is_not_the_luckiest(advice: Advice) -> None:
    found = {
        name: value(torch.tensor(getattr(advice, name)[["x0", "x1"]].to_numpy())).item()
        for name in ("anywhere", "tried", "luckiest")
    }
    assert found["luckiest"] < found["tried"] <= value(readings()[0]).max().item()
    assert found["anywhere"] > -0.02
    X, y = readings()
    assert advice.luckiest["y"].item() == y.max().item()
    assert advice.tried["x0"].item() in X[:, 0].tolist()
    assert advice.anywhere["y_risk"].item() >= advice.tried["y_risk"].item() - 0.02
    assert (advice.tried["y_risk_lower"] < advice.tried["y_risk"]).all()
    assert len(advice.next) == 2
    assert_frame_equal(advice.experiment.running, advice.next)


def test_it_is_printed_in_words(advice: Advice) -> None:
    lines = str(advice).splitlines()
    assert [line.split(":")[0] for line in lines if ":" in line][:4] == [
        "The best setting, tried or not",
        "The best one that was tried",
        f"The luckiest of 24 readings, {advice.luckiest['y'].item():.4g}",
        "Read next",
    ]
    assert f"The model: {advice.verdict.kind}. " in str(advice)


def test_a_table_may_hold_further_columns(advice: Advice) -> None:
    frame = table(remark="none")
    alike(
        advice, advise(frame, settings=SETTINGS, outcomes={"y": "maximize"}, batch_size=2, **FAST)
    )


def test_a_minimised_outcome_keeps_its_sign(advice: Advice) -> None:
    frame = table()
    frame["y"] *= -1
    found = advise(frame, settings=SETTINGS, outcomes={"y": "minimize"}, batch_size=2, **FAST)
    for part in ("anywhere", "tried"):
        one, other = getattr(advice, part), getattr(found, part)
        assert other["x0"].item() == pytest.approx(one["x0"].item(), abs=1e-3)
        assert other["y_risk_lower"].item() == pytest.approx(-one["y_risk_upper"].item(), abs=1e-3)
    assert found.luckiest["y"].item() == -advice.luckiest["y"].item()


def ax_client(mean: Any, name: str = "y", **tracked: Any) -> Any:
    client_of = pytest.importorskip("ax.api.client").Client
    range_of = pytest.importorskip("ax.api.configs").RangeParameterConfig
    client = client_of()
    client.configure_experiment(
        name="foreign",
        parameters=[
            range_of(name=each, bounds=bounds, parameter_type="float")
            for each, bounds in SETTINGS.items()
        ],
    )
    client.configure_optimization(objective=name)
    if tracked:
        client.configure_tracking_metrics([*tracked])
    X, _ = readings()
    for row, x in enumerate(X.tolist()):
        index = client.attach_trial(dict(zip(SETTINGS, x, strict=True)))
        noted = {each: values[row] for each, values in tracked.items()}
        client.complete_trial(index, {name: mean[row], **noted})
    return client


def test_an_experiment_of_ax_says_the_same(advice: Advice) -> None:
    _, y = readings()
    client = ax_client(y.tolist(), "gain")
    alike(advice, advise(client, batch_size=2, **FAST), "gain")
    started = client.attach_trial({"x0": 1.0, "x1": 0.0})
    found = foreign_readings(client, [], None)
    assert found.running.to_dict("records") == [{"x0": 1.0, "x1": 0.0}]
    client.mark_trial_failed(started)
    frame = foreign_readings(client._experiment, [], None).frame
    assert frame["gain"].isna().tolist() == [False] * len(y) + [True]


def test_a_mean_of_ax_with_a_count_is_so_many_readings() -> None:
    _, y = readings()
    client = ax_client([(each, 0.5) for each in y.tolist()], y_count=[(4.0, 0.0)] * len(y))
    frame = foreign_readings(client, [], None).frame
    groups = frame.groupby(["x0", "x1"], sort=False)["y"]
    assert groups.size().tolist() == [4] * len(y)
    assert groups.mean().tolist() == pytest.approx(y.tolist())
    assert groups.std().tolist() == pytest.approx([1.0] * len(y))  # .5 times the root of four


def test_conditions_of_ax_are_tracking_metrics() -> None:
    X, y = readings()
    wind = torch.rand(len(X), generator=torch.Generator().manual_seed(2)).double()
    risk = {"conditions": {"wind": (0.0, 1.0)}, "risk": ConditionalValueAtRisk(0.2), **FAST}
    told = torch.cat([X, wind.unsqueeze(-1)], dim=-1)
    expected = advise((told, y), settings=BOUNDS, **risk)
    client = ax_client(y.tolist(), wind=wind.tolist())
    alike(expected, advise(client, **risk))
    with pytest.raises(InputDataError, match=r"'rain' as a tracking metric .* none in trial 0"):
        advise(client, conditions={"rain": (0.0, 1.0)})


def test_a_study_of_optuna_says_the_same(advice: Advice) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    kinds = {name: optuna.distributions.FloatDistribution(*each) for name, each in SETTINGS.items()}
    for x, y in zip(*(each.tolist() for each in readings()), strict=True):
        params = dict(zip(SETTINGS, x, strict=True))
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=y))
    alike(advice, advise(study, batch_size=2, **FAST), "value")
    study.enqueue_trial({"x0": 1.0, "x1": 0.0})
    study.ask(kinds)
    found = foreign_readings(study, [], None)
    assert found.running.to_dict("records") == [{"x0": 1.0, "x1": 0.0}]


def test_numbers_among_the_choices_of_ax_are_text_and_fixed_ones_are_left_out() -> None:
    client_of = pytest.importorskip("ax.api.client").Client
    configs = pytest.importorskip("ax.api.configs")
    client = client_of()
    choices = {"size": [16, 32, 64], "kind": ["a", "b"]}
    kinds = {"size": "int", "kind": "str"}
    client.configure_experiment(
        name="choices",
        parameters=[
            configs.RangeParameterConfig(
                name="rate", bounds=(1e-4, 1e-1), parameter_type="float", scaling="log"
            ),
            *(
                configs.ChoiceParameterConfig(
                    name=name, values=values, parameter_type=kinds[name], is_ordered=False
                )
                for name, values in choices.items()
            ),
        ],
    )
    client.configure_optimization(objective="-cost")
    index = client.attach_trial({"rate": 1e-3, "size": 32, "kind": "b"})
    client.complete_trial(index, {"cost": 1.0})
    found = foreign_readings(client, [], None)
    assert found.settings == {
        "rate": (1e-4, 1e-1, "log"),
        "size": ["16", "32", "64"],
        "kind": ["a", "b"],
    }
    assert found.outcomes == {"cost": "minimize"}
    assert found.frame.to_dict("records") == [
        {"rate": 1e-3, "size": "32", "kind": "b", "cost": 1.0}
    ]


def test_an_abandoned_trial_of_ax_is_left_out() -> None:
    _, y = readings()
    client = ax_client(y.tolist())
    client.mark_trial_abandoned(client.attach_trial({"x0": 1.0, "x1": 0.0}))
    assert foreign_readings(client, [], None).frame["y"].tolist() == y.tolist()


def test_the_columns_of_a_study_of_optuna() -> None:
    optuna = pytest.importorskip("optuna")
    of = optuna.distributions
    study = optuna.create_study(direction="minimize")
    kinds = {
        "rate": of.FloatDistribution(1e-5, 1e-1, log=True),
        "depth": of.IntDistribution(1, 9, step=2),
        "size": of.CategoricalDistribution([16, 32]),
        "drop": of.CategoricalDistribution([True, False]),
        "fixed": of.FloatDistribution(2.0, 2.0),
    }
    params = {"rate": 1e-3, "depth": 3, "size": 32, "drop": True, "fixed": 2.0}
    for state, noted in ((optuna.trial.TrialState.COMPLETE, {"load": 0.5}), (None, {})):
        value = {"value": 1.0, "state": state} if state else {"state": optuna.trial.TrialState.FAIL}
        study.add_trial(
            optuna.create_trial(params=params, distributions=kinds, user_attrs=noted, **value)
        )
    wider = {**kinds, "depth": of.IntDistribution(1, 11, step=2)}
    study.add_trial(
        optuna.create_trial(params=params, distributions=wider, user_attrs={"load": 1.0}, value=2.0)
    )
    found = foreign_readings(study, ["load"], None)
    assert found.settings == {
        "rate": (1e-5, 1e-1, "log"),
        "depth": (1, 11, 2),
        "size": ["16", "32"],
        "drop": [True, False],
    }
    assert found.outcomes == {"value": "minimize"}
    assert found.frame["size"].tolist() == ["32"] * 3
    assert found.frame["value"].isna().tolist() == [False, True, False]
    with pytest.raises(InputDataError, match=r"'wind' in the user attributes .* none in trial 0"):
        foreign_readings(study, ["wind"], None)
    with pytest.raises(UnsupportedError, match=r"one objective. Got 2"):
        advise(optuna.create_study(directions=["minimize", "maximize"]))


def test_repeats_of_tensors_are_readings_of_one_setting() -> None:
    X, y = readings()
    repeated = torch.stack([y, y + 0.1, torch.full_like(y, torch.nan)], dim=-1)
    found = advise((X, repeated), settings=SETTINGS, risk=0.5, **FAST)
    assert len(found.experiment.data) == 3 * len(X)
    assert found.experiment.strategy.history.Y.isfinite().sum() == 2 * len(X)
    assert found.experiment.strategy.method.num_repeats == 2
    other = advise((X, repeated), settings=SETTINGS, num_repeats=5, strategy=risk_averse_kg, **FAST)
    assert other.experiment.strategy.method.num_repeats == 5


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "Expected `settings` by name, and one outcome"),
        ({"settings": SETTINGS}, ValueError, "one outcome with its direction"),
        (
            {"settings": SETTINGS, "outcomes": {"y": "maximize", "z": None}},
            ValueError,
            "one outcome with its direction",
        ),
        ({"settings": SETTINGS, "outcomes": {"z": "maximize"}}, InputDataError, "Missing: 'z'"),
        (
            {"settings": SETTINGS, "outcomes": {"y": "maximize"}, "risk": "worst"},
            (TypeError, ValueError),
            "risk",
        ),
        (
            {
                "settings": SETTINGS,
                "outcomes": {"y": "maximize"},
                "risk": ConditionalValueAtRisk(0.1),
            },
            ValueError,
            "Expected `conditions` for a risk measure",
        ),
        (
            {
                "settings": {"x0": (0.0, 2.0)},
                "outcomes": {"y": "maximize"},
                "conditions": {"x1": (-1.0, 1.0)},
                "risk": 0.5,
            },
            ValueError,
            "Expected a measure of the risk over the conditions",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        advise(table(), **options)


def test_other_readings_are_refused() -> None:
    X, y = readings()
    with pytest.raises(TypeError, match="Expected a DataFrame, a study of Optuna"):
        advise([1, 2])
    with pytest.raises(InputDataError, match="Got 2 columns"):
        advise((X, y), settings=BOUNDS[:, :1])
    with pytest.raises(InputDataError, match=r"Got \(24, 2\), \(23, 1\)"):
        advise((X, y[1:]), settings=BOUNDS)
    with pytest.raises(ValueError, match=r"at least 3 settings for a model of 2 columns. Got 2"):
        advise((X[:2], y[:2]), settings=BOUNDS)


def test_the_best_among_some_settings() -> None:
    experiment = FrameExperiment(
        SETTINGS, {"y": "maximize"}, rahbo, num_repeats=2, risk_aversion=0.0, **FAST
    )
    experiment.tell(table())
    some = table()[["x0", "x1"]].iloc[:5]
    best = experiment.recommend(among=some)
    each = [experiment.recommend(among=some.iloc[[row]]) for row in range(5)]
    risks = [one["y_risk"].item() for one in each]
    assert best["y_risk"].item() == pytest.approx(max(risks))
    assert best["x0"].item() == some["x0"].iloc[risks.index(max(risks))]
    with pytest.raises(InputDataError, match="a row with all settings"):
        experiment.recommend(among=some.assign(x1=None))
