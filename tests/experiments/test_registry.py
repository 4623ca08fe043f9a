from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from botorch_risk.experiments import Campaign, ExperimentStore, get_experiment, register
from botorch_risk.experiments.summary import regret_curves
from tests.experiments.noisy_quadratic import QUADRATIC


def test_finds_what_was_registered() -> None:
    assert get_experiment("quadratic") is QUADRATIC
    assert register(QUADRATIC) is QUADRATIC


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("bundled-portfolio-normal", "GP-UCB"), ("var-bundled-portfolio", "random")],
)
def test_a_portfolio_runs_without_anybodys_data(name: str, strategy: str, tmp_path: Path) -> None:
    Campaign(get_experiment(name), tmp_path / "s.sqlite", [0], [strategy], 1).run()
    with ExperimentStore(tmp_path / "s.sqlite") as store:
        curve = regret_curves(store)[strategy].simple
    assert curve.shape[-1] == 2 and (curve > 0).all()


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"registered experiment \(.*quadratic.*\)\. Got name='q'"):
        get_experiment("q")
    with pytest.raises(ValueError, match="a name that is not taken"):
        register(dataclasses.replace(QUADRATIC, num_rounds=7))
    for change in ({"num_rounds": 0}, {"strategies": {}}, {"num_repeats": 0}):
        with pytest.raises(ValueError, match="at least 1 initial point, round, repeat and strat"):
            dataclasses.replace(QUADRATIC, **change)
