r"""A finite table in Ax: what it asks for is what `table_search` asks for."""

from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.exceptions.core import SearchSpaceExhausted, UnsupportedError, UserInputError
from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory

from botorch_risk.ax import best_arm, risk_averse
from botorch_risk.risk import Expectation, RiskMeasure, ShareAbove, WorstCase
from botorch_risk.tables import table_search
from botorch_risk.tables.with_ax import FiniteTableNode, filled_table, finite_table
from tests.ax.laboratory import laboratory

BASES, SOLVENTS, ALCOHOLS = ["P", "Q", "R"], ["THF", "MeCN"], ["u", "v", "w", "x", "y"]
CONDITIONS = [(base, solvent) for base in BASES for solvent in SOLVENTS]


def choices(name: str, values: list[Any], kind: Any = "str", ordered: bool = False) -> Any:
    return ChoiceParameterConfig(name, values, kind, is_ordered=ordered)


PARAMETERS = (choices("base", BASES), choices("alcohol", ALCOHOLS), choices("solvent", SOLVENTS))


def table(
    objective: str = "conversion",
    parameters: Any = PARAMETERS,
    storage_config: Any = None,
    constraints: Any = (),
    parameter_constraints: Any = (),
    names: Any = (["base", "solvent"], ["alcohol"]),
    **options: Any,
) -> Client:
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        parameters=parameters, parameter_constraints=parameter_constraints, name="table"
    )
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    client.set_generation_strategy(finite_table(*names, **{"num_initial": 4, **options}))
    return client


def yield_of(parameters: Any) -> float:
    x, w = BASES.index(parameters["base"]), ALCOHOLS.index(parameters["alcohol"])
    return 0.3 * x + 0.2 * (parameters["solvent"] == "MeCN") - 0.1 * w + 0.05 * (x * w % 3)


def play(client: Client, num_plates: int, q: int = 3, sign: float = 1.0) -> list[Any]:
    asked = []
    for _ in range(num_plates):
        for index, parameters in client.get_next_trials(max_trials=q).items():
            client.complete_trial(index, {"conversion": sign * yield_of(parameters)})
            asked.append(parameters)
    return asked


@pytest.mark.parametrize("measure", [None, WorstCase(), ShareAbove(0.2)], ids=repr)
@pytest.mark.slow
def test_plates_and_recommendation_are_those_of_the_search_outside(measure: Any) -> None:
    weights = [0.4, 0.3, 0.1, 0.1, 0.1]
    client = table(risk_measure=measure, weights=weights, seed=3)
    of_ax = [((p["base"], p["solvent"]), p["alcohol"]) for p in play(client, 4)]
    search = table_search(
        CONDITIONS,
        ALCOHOLS,
        risk_measure=measure or Expectation(),
        weights=torch.tensor(weights),
        num_initial=4,
        seed=3,
    )
    outside = []
    for _ in range(4):
        plate = [search.ask(q=1)[0] for _ in range(3)]  # as Ax asks
        values = [yield_of({"base": x[0], "solvent": x[1], "alcohol": w}) for x, w in plate]
        search.tell(plate, values)
        outside += [(x, w) for x, w in plate]
    assert of_ax == outside
    found, expected = filled_table(client).recommend(), search.recommend()
    assert found.condition == expected.condition
    assert found.risk == pytest.approx(expected.risk, abs=1e-8)


@pytest.mark.slow
def test_what_is_minimised_is_the_negative() -> None:
    upward, downward = table(), table("-conversion")
    assert play(upward, 3) == play(downward, 3, sign=-1.0)
    assert filled_table(upward).ranking() == filled_table(downward).ranking()


def test_every_pair_is_asked_for_once_and_then_no_more() -> None:
    client = table()
    pairs = play(client, 10)
    assert len({tuple(sorted(pair.items())) for pair in pairs}) == len(CONDITIONS) * len(ALCOHOLS)
    with pytest.raises(SearchSpaceExhausted, match=r"Every pair of the table"):
        client.get_next_trials(max_trials=1)


def test_attached_failed_and_abandoned_trials() -> None:
    client = table(num_initial=1)
    for alcohol in ALCOHOLS:  # all of one condition
        index = client.attach_trial({"base": "P", "solvent": "THF", "alcohol": alcohol})
        client.complete_trial(index, {"conversion": 0.1})
    (abandoned,) = client.get_next_trials(max_trials=1)
    parameters = dict(client._experiment.trials[abandoned].arms[0].parameters)
    client.mark_trial_abandoned(abandoned)
    later = play(client, 24, q=1)
    assert parameters not in later
    assert len(later) == 24
    assert filled_table(client).num_outcomes == 29


def test_ordered_values_are_numbers_and_constraints_leave_pairs_out() -> None:
    heats = [20, 30, 40, 80]
    parameters = (
        choices("heat", heats, "int", ordered=True),
        choices("time", [1, 2, 3], "int", ordered=True),
        choices("alcohol", ALCOHOLS[:2]),
    )
    client = table(
        parameters=parameters,
        names=(["heat", "time"], ["alcohol"]),
        parameter_constraints=["heat + 20*time <= 100"],
    )
    asked = []
    for _ in range(5):
        for index, pair in client.get_next_trials(max_trials=3).items():
            client.complete_trial(index, {"conversion": pair["heat"] / 80 + pair["time"] / 10})
            asked.append(pair)
    assert all(pair["heat"] + 20 * pair["time"] <= 100 for pair in asked)
    factors = filled_table(client).conditions
    assert factors.names[0] == (20, 1)
    distances = factors.distances[0][0, ::3]  # from 20 to each heat
    steps = torch.tensor(heats).double() - 20
    torch.testing.assert_close(distances, steps.square() / steps[1] ** 2 * distances[1])


def test_rows_have_one_name_each_with_the_values_as_ax_has_them() -> None:
    parameters = (
        choices("heat", [20, 30], "int", ordered=True),
        choices("dry", [False, True], "bool"),
        choices("alcohol", ALCOHOLS[:2]),
    )
    node = FiniteTableNode(["heat", "dry"], ["alcohol"])
    client = table(parameters=parameters, names=(["heat", "dry"], ["alcohol"]))
    conditions, contexts = node._factors(client._experiment)
    assert conditions.index.nlevels == contexts.index.nlevels == 1
    first = conditions.index[0]
    assert first == (20, False) and [*map(type, first)] == [int, bool]
    assert list(contexts.index) == [(each,) for each in ALCOHOLS[:2]]


@pytest.mark.slow
def test_saved_and_loaded_it_goes_on(tmp_path: Path) -> None:
    whole = play(table(risk_measure=ShareAbove(0.2)), 4)
    path = str(tmp_path / "table.json")
    first = table(risk_measure=ShareAbove(0.2))
    asked = play(first, 2)
    first.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
    assert asked + play(loaded, 2) == whole
    assert filled_table(loaded).recommend().condition in CONDITIONS


@pytest.mark.filterwarnings("ignore:TypeDecorator")  # of a column of Ax
@pytest.mark.filterwarnings("ignore:.sort_values. is not specified")  # Ax loads it without
@pytest.mark.slow
def test_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/experiments.db"
    init_engine_and_session_factory(url=url, force_init=True)
    create_all_tables(get_engine())
    config = StorageConfig(url=url)
    whole = play(table(rule="risk_variance"), 4)
    asked = play(table(rule="risk_variance", storage_config=config), 2)
    loaded = Client.load_from_database("table", storage_config=config)
    assert asked + play(loaded, 2) == whole


def test_bad_input() -> None:
    measure: RiskMeasure = Expectation()
    for arguments, message in (
        ({"names": ([], ["alcohol"])}, r"`conditions` to be a list of parameters. Got \[\]"),
        ({"names": (["base"], "alcohol")}, r"`contexts` to be a list of parameters. Got 'alc"),
        ({"rule": "best"}, r"`rule` to be one of"),
        ({"noise_share": 2.0}, r"`noise_share` in \[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            table(risk_measure=measure, **arguments)
    by_name: Any = {"low": 0.5, "high": 0.5}
    with pytest.raises(TypeError, match=r"`weights` to be a list\. Got dict"):
        finite_table(["base"], ["alcohol"], weights=by_name)
    for arguments, message in (
        ({"names": (["base"], ["alcohol"])}, r"\['base', 'alcohol', 'solvent'\], each once"),
        (
            {
                "parameters": (RangeParameterConfig("heat", (0.0, 1.0), "float"), PARAMETERS[1]),
                "names": (["heat"], ["alcohol"]),
            },
            r"Expected choice parameters. Got 'heat', a RangeParameter",
        ),
    ):
        with pytest.raises(UserInputError, match=message):
            table(**arguments).get_next_trials(max_trials=1)
    with pytest.raises(
        UnsupportedError, match=r"no outcome constraint for a finite table. Got \['cost <= 1'\]"
    ):
        table(constraints=["cost <= 1"]).get_next_trials(max_trials=1)
    with pytest.raises(UnsupportedError, match="the last node 'finite_table'"):
        best_arm(table())
    with pytest.raises(UnsupportedError, match=r"Expected a strategy `finite_table`. Got 'risk_"):
        filled_table(laboratory(strategy=risk_averse("purity")))
