r"""What only an extra installs is asked for before the first round."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import Campaign, Series, run_experiment
from botorch_risk_bench.campaigns.extras import check_extras
from botorch_risk_bench.experiments import get_experiment

from bench.tests.campaigns.small import run_here
from botorch_risk.extras import MissingExtraError


def needing(part: str) -> Campaign:
    r"""A trial of GP-UCB on a sine, of which a part needs a module that nobody has."""
    extras = {part: [("torch", "torch"), ("no_such", "bench[all]")]}
    own = dataclasses.replace(get_experiment("sine"), name="needy", extras=extras)
    series = Series("needy", "GP-UCB", num_seeds=1, num_rounds=1)
    return Campaign("trial", [series], own=[own])


def run_one(campaign: Campaign, path: Path) -> None:
    run_experiment("needy", path, 1, strategies=["GP-UCB"], own=campaign.own)


@pytest.mark.parametrize("run", [run_here, run_one])
@pytest.mark.parametrize(("part", "who"), [("problem", "needy"), ("GP-UCB", "needy, GP-UCB")])
def test_a_missing_extra_is_named_and_nothing_is_stored(
    part: str, who: str, run: Callable[[Campaign, Path], object], tmp_path: Path
) -> None:
    said = f"Expected `no_such`, for {who}, to be installed by pip install 'bench[all]'. Got no"
    with pytest.raises(MissingExtraError, match=re.escape(said)):
        run(needing(part), tmp_path / "results" / "a.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_run_is_asked_for() -> None:
    check_extras(needing("RAHBO"))


@pytest.mark.parametrize(
    ("name", "strategy", "module"),
    [
        ("uhe-h1", "MCMC", "numpyro"),
        ("uhe-boosting", "MAP", "xgboost"),
        ("uhe-lunar", "MAP", "gymnasium"),
        ("var-robot", "random", "pymunk"),
    ],
)
def test_the_papers_experiments_name_their_extras(
    name: str, strategy: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    with pytest.raises(MissingExtraError, match=rf"Expected `{module}`, for {name}"):
        check_extras(Campaign("trial", [Series(name, strategy)]))
