r"""An experiment that is saved and loaded in the middle goes on as if it had not been."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory

from botorch_risk.acquisition import RiskUpperConfidenceBound, qRiskAverseUpperConfidenceBound
from botorch_risk.ax import (
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
    with_random_exploration,
)
from botorch_risk.ax.storage import register
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.level_sets import Straddle
from botorch_risk.level_sets.with_ax import level_set, risk_level_set
from botorch_risk.models import MeanVarianceGP
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.risk import ConditionalValueAtRisk
from tests.ax.laboratory import HUMIDITY, laboratory, play

# At the kinks of value-at-risk a line search may end early; BoTorch tries again.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Very small noise")  # where nothing is stirred
]
STIRRING = {"stir": ([0.5, 1.0, 2.0], [0.2, 0.5, 0.3])}  # in place of a decision
STRATEGIES: dict[str, Callable[[], GenerationStrategy]] = {
    "risk_averse": lambda: risk_averse("purity", num_initial=3, risk_aversion=2.0, seed=4),
    "level_set": lambda: level_set(threshold=0.1, num_initial=3, seed=4),
    "value_at_risk": lambda: value_at_risk(STIRRING, num_initial=3, seed=4),
    "value_at_risk, risk variance": lambda: value_at_risk(
        STIRRING, value_rule="risk_variance", num_initial=3, seed=4
    ),
    "under_uncertain_context": lambda: under_uncertain_context(
        "purity", HUMIDITY, risk_measure=ConditionalValueAtRisk(0.3), num_initial=3, seed=4
    ),
    "risk_level_set": lambda: risk_level_set(
        "purity", HUMIDITY, threshold=0.1, num_initial=3, seed=4
    ),
    "under_perturbed_inputs": lambda: under_perturbed_inputs(
        {"heat": 0.1}, constraint_risk_measure=ConditionalValueAtRisk(0.3), num_initial=3, seed=4
    ),
    "with_random_exploration": lambda: with_random_exploration(
        risk_averse("purity", num_initial=2, seed=4), seed=1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_json(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "experiment.json")
    whole = play(laboratory(strategy=STRATEGIES[name]()), 6)
    first = laboratory(strategy=STRATEGIES[name]())
    asked = play(first, 4)
    first.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
    assert asked + play(loaded, 6, first=4) == whole


@pytest.mark.filterwarnings("ignore:TypeDecorator")  # of a column of Ax
@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_sqlite(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/experiments.db"
    init_engine_and_session_factory(url=url, force_init=True)
    create_all_tables(get_engine())
    config = StorageConfig(url=url)
    whole = play(laboratory(strategy=STRATEGIES[name]()), 6)
    first = laboratory(strategy=STRATEGIES[name](), storage_config=config)
    asked = play(first, 4)
    loaded = Client.load_from_database("laboratory", storage_config=config)
    assert asked + play(loaded, 6, first=4) == whole


def test_every_acquisition_function_has_a_name_in_ax() -> None:
    for kind in (
        ConstrainedUpperConfidenceBound,
        LogRiskAverseKnowledgeGradient,
        RiskUpperConfidenceBound,
        Straddle,
        qRiskAverseUpperConfidenceBound,
    ):
        assert object_from_json(object_to_json(kind)) is kind
    register()  # again does no harm
    assert object_from_json(object_to_json(MeanVarianceGP)) is MeanVarianceGP


def test_without_ax_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "ax"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax", None)
    for name in [each for each in sys.modules if each.startswith("botorch_risk.ax")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"by pip install 'botorch_risk\[ax\]'") as error:
        importlib.import_module("botorch_risk.ax")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_what_torch_draws_elsewhere_does_not_matter() -> None:
    def asked(seed: int) -> list[dict[str, Any]]:
        torch.manual_seed(seed)
        return play(laboratory(), 4)

    assert asked(0) == asked(1)
