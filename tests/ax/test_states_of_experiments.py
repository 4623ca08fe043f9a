r"""Random histories of a client: attached, failed, abandoned, changed, reloaded and looked at."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.exceptions.core import DataRequiredError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botorch_risk.ax import (
    RiskFrontierPlot,
    best_arm,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
    with_random_exploration,
)
from botorch_risk.ax.trials import is_inside, measured_arms
from botorch_risk.diagnostics.with_ax import CalibrationPlot
from botorch_risk.level_sets.with_ax import level_set, risk_level_set
from botorch_risk.tables.with_ax import filled_table, finite_table
from tests.ax.laboratory import HUMIDITY, PARAMETERS, laboratory, outcome

pytestmark = pytest.mark.filterwarnings("ignore")  # of units, contexts and least infeasible arms

TABLE = tuple(
    ChoiceParameterConfig(name, values, "str", is_ordered=False)
    for name, values in (("base", ["p", "q", "r"]), ("solvent", ["u", "v", "w"]))
)
STIRRING = {"stir": ([0.5, 1.0, 2.0], [0.2, 0.5, 0.3])}
STRATEGIES: dict[str, Callable[[], Any]] = {
    "risk_averse": lambda: risk_averse("purity", num_initial=3),
    "under_uncertain_context": lambda: under_uncertain_context("purity", HUMIDITY, num_initial=3),
    "value_at_risk": lambda: value_at_risk(STIRRING, num_initial=3),
    "under_perturbed_inputs": lambda: under_perturbed_inputs({"heat": 0.1}, num_initial=3),
    "level_set": lambda: level_set(0.1, num_initial=3),
    "risk_level_set": lambda: risk_level_set("purity", HUMIDITY, threshold=0.1, num_initial=3),
    "with_random_exploration": lambda: with_random_exploration(
        risk_averse("purity", num_initial=3)
    ),
    "finite_table": lambda: finite_table(["base"], ["solvent"], num_initial=3),
}
WITHOUT_LIMITS = ("finite_table", "level_set", "risk_level_set")
LOST = {"purity": 99.0, "humidity": 90.0}  # the data of trials that do not count
STEPS = ("ask", "attach", "beyond", "fail", "abandon", "late", "turn", "limit", "reload", "look")


@dataclass
class History:
    r"""A client, and one that went through the same without data that do not count."""

    name: str
    folder: Path
    random: Random
    clients: list[Client] = field(default_factory=list)
    objective: str = "purity"
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parameters = TABLE if self.name == "finite_table" else PARAMETERS
        self.clients = [
            laboratory(parameters=parameters, strategy=STRATEGIES[self.name]()) for _ in "12"
        ]

    def step(self, name: str) -> None:
        r"""Take a step with both clients."""
        getattr(self, name)()

    def ask(self) -> None:
        r"""The next trial of both, which is completed."""
        first, second = (client.get_next_trials(max_trials=1) for client in self.clients)
        assert first == second
        for index, parameters in first.items():
            for client in self.clients:
                client.complete_trial(index, self.outcome(index, dict(parameters)))

    def attach(self) -> None:
        for client, index, parameters in self.attached(self.point()):
            client.complete_trial(index, self.outcome(index, parameters))

    def beyond(self) -> None:
        r"""A baseline from outside the search space, better than all others."""
        outside = {"heat": 1.4, "stir": 1.0}
        if self.name == "finite_table":
            outside = {"base": "old", "solvent": "u"}
        for client, index, _ in self.attached(outside):
            client.complete_trial(index, {**LOST, "cost": 0.0})

    def fail(self) -> None:
        self.ended("mark_trial_failed")

    def abandon(self) -> None:
        self.ended("mark_trial_abandoned")

    def late(self) -> None:
        r"""A trial that is still running, with the first data of an attached one."""
        for number, (client, index, _) in enumerate(self.attached(self.point())):
            if number == 0:
                client.attach_data(index, LOST)

    def turn(self) -> None:
        self.objective = "-purity" if self.objective == "purity" else "purity"
        self.configure()

    def limit(self) -> None:
        if self.name not in WITHOUT_LIMITS:
            self.limits = (f"cost <= {self.random.choice((0.5, 1.0, 2.0))}",)
            self.configure()

    def reload(self) -> None:
        self.clients = [self.loaded(client) for client in self.clients]

    def look(self) -> None:
        r"""A recommendation and the cards, of the first client alone."""
        self.recommended(self.clients[0])
        cards = [RiskFrontierPlot(), CalibrationPlot()]
        self.clients[0].compute_analyses(cards, display=False)

    def check(self) -> None:
        r"""Both clients and a loaded one recommend and suggest the same."""
        clients = [*self.clients, self.loaded(self.clients[0])]
        found = [self.recommended(client) for client in clients]
        assert found[0] == found[1] == found[2]
        asked = [client.get_next_trials(max_trials=1) for client in clients]
        assert asked[0] == asked[1] == asked[2]

    def recommended(self, client: Client) -> Any:
        r"""What is recommended: measured, inside and feasible, or said not to be."""
        if self.name == "finite_table":
            try:
                return filled_table(client).recommend()
            except ValueError:
                return None
        if "level_set" in self.name:
            return None
        try:
            found = best_arm(client)
        except DataRequiredError:
            return None
        experiment = client._experiment
        arms = [arm.parameters for _, arm in measured_arms(experiment)]
        assert found.parameters in arms
        assert is_inside(experiment, experiment.trials[found.trial_index].arms[0])
        if found.feasible and self.limits:
            cost = found.parameters["heat"] + found.parameters["stir"]
            assert cost <= float(self.limits[0].split()[-1]) + 0.05
        return found

    def outcome(self, index: int, parameters: dict[str, Any]) -> dict[str, Any]:
        if self.name == "finite_table":
            return {"purity": 0.1 * "pqr".index(parameters["base"]) + 0.01 * (index % 3)}
        return outcome(index, parameters)

    def point(self) -> dict[str, Any]:
        if self.name == "finite_table":
            return {"base": self.random.choice("pqr"), "solvent": self.random.choice("uvw")}
        stir = self.random.choice(STIRRING["stir"][0])
        return {"heat": round(self.random.random(), 3), "stir": stir}

    def attached(self, parameters: dict[str, Any]) -> list[tuple[Client, int, dict[str, Any]]]:
        return [(client, client.attach_trial(parameters), parameters) for client in self.clients]

    def ended(self, end: str) -> None:
        for number, (client, index, _) in enumerate(self.attached(self.point())):
            if number == 0:
                client.attach_data(index, LOST)
            getattr(client, end)(index)

    def configure(self) -> None:
        for client in self.clients:
            client.configure_optimization(self.objective, list(self.limits))

    def loaded(self, client: Client) -> Client:
        path = str(self.folder / "client.json")
        client.save_to_json_file(path)
        return Client.load_from_json_file(path)


def check(name: str, folder: Path, steps: list[str], seed: int) -> None:
    history = History(name, folder, Random(seed))
    for step in steps:
        history.step(step)
    history.check()


LOOKED = ["attach", "attach", "attach", "look", "turn", "beyond", "fail", "late"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[] if name in ("finite_table", "risk_averse") else pytest.mark.slow
        )
        for name in STRATEGIES
    ],
)
def test_what_does_not_count_does_not_matter(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, LOOKED, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@settings(
    max_examples=65,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=9), seed=st.integers(0))
def test_of_many_histories_none_matters(
    name: str, steps: list[str], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(name, tmp_path_factory.mktemp("states"), steps, seed)
