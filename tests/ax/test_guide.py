r"""docs/ax.md runs as it stands, and the reports for Ax print what they say."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from botorch.exceptions.warnings import BotorchWarning

from tests.ax.laboratory import PARAMETERS, node_of
from tests.test_docs import DOCS, names_after

GUIDE = (DOCS / "ax.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
(
    FIRST,
    SECOND,
    OLD,
    SWITCHED,
    PLOTS,
    THIRD,
    TABLE,
    PERTURBED,
    FOURTH,
    RELIABLE,
    EXPLORING,
    BEST,
    CARDS,
    PARTS,
) = BLOCKS


def test_the_laboratory_takes_four_lines_beyond_plain_ax() -> None:
    found: dict[str, Any] = {}
    exec(FIRST, found)
    client = found["client"]
    exec(BEST, {"client": client})
    exec(CARDS, shown := {"client": client})
    assert [type(card).__name__ for card in shown["cards"]] == 3 * ["PlotlyAnalysisCard"]
    assert [node_of(client, index) for index in range(8)] == 5 * ["Sobol"] + 3 * ["risk_averse"]
    assert len(re.findall(r"  # \d$", FIRST, flags=re.MULTILINE)) == 4


@pytest.mark.slow
def test_a_context_takes_six_lines_beyond_plain_ax() -> None:
    found: dict[str, Any] = {}
    exec(FIRST.partition("client = ")[0] + SECOND, found)
    assert node_of(found["client"], 7) == "under_uncertain_context"
    assert len(re.findall(r"  # \d$", SECOND, flags=re.MULTILINE)) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what `Client` calls
def test_a_client_with_trials_goes_on_with_contexts_and_batches() -> None:
    found: dict[str, Any] = {}
    with pytest.warns(BotorchWarning, match="humidity"):
        exec(OLD + SWITCHED, found)
    assert len(found["client"].summarize()) == 18
    assert node_of(found["client"], 17) == "under_uncertain_context"
    exec(PLOTS, found)
    assert [len(trial.arms) for trial in found["field"].trials.values()] == 4 * [3]
    assert len(found["field"].lookup_data().df) == 24  # an outcome and a context of each arm
    assert node_of(found["plots"], 3) == "under_uncertain_context"


def test_a_simulator_takes_three_lines_beyond_plain_ax() -> None:
    found: dict[str, Any] = {}
    exec(FIRST.partition("client = ")[0] + THIRD, found)
    client = found["client"]
    for _ in range(6):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            distance = float(parameters["angle"]) * (1 - float(parameters["wind"]) / 20)
            client.complete_trial(index, {"distance": distance})
    assert node_of(client, 5) == "value_at_risk"


def test_a_finite_table_takes_four_lines_beyond_plain_ax(capsys: Any) -> None:
    exec("from ax.api.client import Client\n" + TABLE, {})
    assert capsys.readouterr().out.splitlines()[-1] == "BTMG"
    assert len(re.findall(r"  # \d$", TABLE, flags=re.MULTILINE)) == 4


def test_perturbed_parameters_take_three_lines_beyond_plain_ax() -> None:
    found: dict[str, Any] = {}
    exec("from botorch_risk.risk import ConditionalValueAtRisk", found)
    exec(FIRST.partition("client = ")[0] + PERTURBED, found)
    client = found["client"]
    for _ in range(6):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            client.complete_trial(index, {"purity": parameters["heat"]})
    assert node_of(client, 5) == "under_perturbed_inputs"
    assert len(re.findall(r"  # \d$", PERTURBED, flags=re.MULTILINE)) == 3


def test_a_level_set_takes_two_lines_beyond_plain_ax() -> None:
    found: dict[str, Any] = {}
    exec(FIRST.partition("client = ")[0] + FOURTH, found)
    client = found["client"]
    for _ in range(6):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            client.complete_trial(index, {"purity": parameters["heat"]})
    assert node_of(client, 5) == "level_set"


def test_a_level_set_of_a_risk_takes_the_trials_of_a_context() -> None:
    found: dict[str, Any] = {}
    exec("from botorch_risk.risk import ConditionalValueAtRisk\n" + RELIABLE, found)
    assert [node.name for node in found["strategy"]._nodes] == ["Sobol", "under_uncertain_context"]


def test_random_exploration_takes_two_lines() -> None:
    found: dict[str, Any] = {}
    exec("from botorch_risk.ax import risk_averse\n" + EXPLORING, found)
    assert [node.name for node in found["strategy"]._nodes] == ["Sobol", "Random", "risk_averse"]
    assert len(re.findall(r"  # \d$", EXPLORING, flags=re.MULTILINE)) == 2


@pytest.mark.slow
def test_parts_by_name_make_a_strategy() -> None:
    found: dict[str, Any] = {}
    exec(PARTS, found)
    client = Client()
    client.configure_experiment(name="edge", parameters=PARAMETERS)
    client.configure_optimization(objective="purity")
    client.set_generation_strategy(found["strategy"])
    for _ in range(7):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            client.complete_trial(index, {"purity": sum(map(float, parameters.values()))})
    assert node_of(client, 6) == "edge of what is good enough"


REPORTS = {"upstream_ax.md": "ax", "upstream_axbo.md": "axbo_extensions"}  # pages of a package


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page, of in REPORTS.items() if find_spec(of)])
def test_reports_print_what_they_say(page: str, tmp_path: Path) -> None:
    names_after(DOCS / page, tmp_path)
