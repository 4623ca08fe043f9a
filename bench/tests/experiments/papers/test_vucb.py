r"""The experiments of V-UCB start, and their outside baselines keep to the budget."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers.vucb import OUTSIDE_BUDGET
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.reports.summary import regret_curves

from bench.tests.played import play, records_in

OUTSIDE = ("rho-KG-apx", "qLogNEI-VaR")


@pytest.mark.parametrize("name", ["var-branin-discrete", "var-hartmann12-continuous", "var-robot"])
def test_every_strategy_starts_from_the_same_decisions(name: str) -> None:
    definition = get_experiment(name)
    bounds = decision_bounds(definition.problem())
    starts = {
        label: definition.build(label, bounds, [0, 5]).ask() for label in definition.strategies
    }
    chosen = {label: X for label, X in starts.items() if label != "V-UCB-observed"}
    for X in chosen.values():
        assert torch.equal(X, starts["random"])
    observed = starts["V-UCB-observed"]
    assert torch.equal(observed, starts["random"][..., : observed.shape[-1]])


def test_outside_baselines_keep_to_the_stated_budget() -> None:
    definition = get_experiment("var-branin-discrete")
    stated = definition.settings["outside baselines"]
    for label in OUTSIDE:
        factory: Any = definition.strategies[label]  # a partial
        assert factory.keywords.items() >= OUTSIDE_BUDGET.items()
        assert stated.items() >= OUTSIDE_BUDGET.items()


def test_a_portfolio_runs_on_the_bundled_table(tmp_path: Path) -> None:
    definition, path = get_experiment("var-bundled-portfolio"), tmp_path / "results.sqlite"
    play(definition, path, 1, ["random"], 1)
    with records_in(path) as store:
        curve = regret_curves(store)["random"].simple
    assert curve.shape[-1] == 2
    assert (curve > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("label", OUTSIDE)
def test_an_outside_baseline_starts_with_the_data_of_the_others(label: str, tmp_path: Path) -> None:
    definition = get_experiment("var-branin-discrete")
    first = {}
    for seeds, each in ((2, "random"), (1, label)):
        path = tmp_path / f"{each}.sqlite"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BotorchWarning)
            play(definition, path, seeds, [each], num_rounds=1)
        with records_in(path) as store:
            first[each] = store.rounds(each)[0]
    assert torch.equal(first[label].X, first["random"].X[:1])
    assert torch.equal(first[label].Y, first["random"].Y[:1])
