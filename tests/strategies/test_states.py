r"""A state that was damaged, edited or made by another experiment does not load."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.frames import FrameExperiment
from botorch_risk.papers import rahbo
from botorch_risk.risk import Expectation, MaximumMeanDiscrepancyBall
from botorch_risk.strategies import Strategy
from botorch_risk.strategies.built_with import from_json, to_json
from botorch_risk.strategies.states import sealed
from botorch_risk.tables import Factors, TableSearch, table_search
from tests.risk.cases import risk_kernel
from tests.strategies.bakery import FEW

SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def strategy() -> Strategy:
    found = rahbo(SQUARE, 0, num_repeats=2, risk_aversion=0.5, num_initial=4, **FEW)
    for seed in range(2):
        X = found.ask()
        noise = torch.randn(*X.shape[:-1], 2, generator=torch.Generator().manual_seed(seed))
        found.tell(X, (3 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * noise.double())
    return found


def new_strategy() -> Strategy:
    return rahbo(SQUARE, 0, num_repeats=2, risk_aversion=0.5, num_initial=4, **FEW)


def new_frame() -> FrameExperiment:
    return FrameExperiment(
        {"heat": (20.0, 80.0, 5.0), "flour": ["rye", "wheat"]},
        {"waste": "minimize"},
        rahbo,
        num_repeats=2,
        risk_aversion=0.5,
        num_initial=4,
        **FEW,
    )


def frame() -> FrameExperiment:
    found = new_frame()
    settings = pd.concat([found.ask()] * 2, ignore_index=True)
    settings["waste"] = [3.0, 4.0, 2.5, 6.0, 3.2, 4.1, 2.0, None]
    found.tell(settings)
    found.tell(settings[:2].assign(waste=[3.1, None]))
    found.ask(2)
    return found


def new_table() -> TableSearch:
    return table_search(list("PQRS"), list("uvw"), risk_measure=Expectation(), num_initial=4)


def table() -> TableSearch:
    found = new_table()
    found.tell(found.ask(6), [0.1, 0.4, 0.2, torch.nan, 0.9, 0.8])
    found.tell([("P", "u")], [0.3])
    found.ask(2)
    return found


KINDS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "strategy": (strategy, new_strategy),
    "frame": (frame, new_frame),
    "table": (table, new_table),
}


@cache
def state_of(kind: str) -> dict[str, Any]:
    r"""A state to edit copies of."""
    make, _ = KINDS[kind]
    return make().state_dict()  # type: ignore[no-any-return]


def flipped(text: str, number: int) -> Iterator[str]:
    r"""The text with one bit changed, at seeded places."""
    draw = random.Random(0)
    for _ in range(number):
        data = bytearray(text.encode())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(7)
        yield data.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_no_flip_goes_on_with_other_numbers(kind: str) -> None:
    make, new = KINDS[kind]
    state, before = json.loads(json.dumps(make().state_dict())), new().state_dict()
    loaded = 0
    for text in flipped(json.dumps(state), 200):
        found = new()
        try:
            found.load_state_dict(json.loads(text))
        except ValueError:  # also where the text is no JSON
            assert found.state_dict() == before
        else:
            loaded += 1
            assert found.state_dict() == state
    assert loaded < 40  # such as a space that became a tab


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_on_in_another_order_of_keys_and_stays_as_it_is(kind: str) -> None:
    make, new = KINDS[kind]
    text = json.dumps(make().state_dict(), sort_keys=True)
    state = json.loads(text)
    for _ in range(2):
        found = new()
        found.load_state_dict(state)
        assert json.dumps(found.state_dict(), sort_keys=True) == text
        found.ask(1)
        if kind == "frame":
            found.tell(found.ask(1).assign(waste=2.2))
    assert json.dumps(state, sort_keys=True) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_an_earlier_round_loads(kind: str) -> None:
    make, new = KINDS[kind]
    later, empty = make(), new().state_dict()
    later.load_state_dict(empty)
    assert later.state_dict() == empty


def tensor(change: Callable[[torch.Tensor], Any]) -> Callable[[Any], Any]:
    def edit(value: Any) -> Any:
        return to_json(change(from_json(value).clone()))

    return edit


def put(value: float, *index: int) -> Callable[[Any], Any]:
    def change(old: torch.Tensor) -> torch.Tensor:
        old[index] = value
        return old

    return tensor(change)


def edited(state: dict[str, Any], path: tuple[Any, ...], edit: Any) -> dict[str, Any]:
    r"""The state with one part edited by hand, and a digest of what it then is."""
    state = copy.deepcopy(state)
    *outer, last = path
    parent = state
    for name in outer:
        parent = parent[name]
    if edit is None:
        del parent[last]
    else:
        parent[last] = edit(parent[last]) if callable(edit) else edit
    return sealed(state)


FAULTS: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("strategy", ("history", "X"), tensor(lambda X: X[:, 1:]), r"'Y' of shape"),
    ("strategy", ("history", "X"), tensor(lambda X: X[..., :1]), r"'X' of shape \(1, 5, 2\)"),
    ("strategy", ("history", "X"), put(99.0, 0, 2, 0), r"points within bounds.*99"),
    ("strategy", ("history", "X"), put(torch.nan, 0, 2, 0), r"point for every outcome"),
    ("strategy", ("history", "Y"), put(torch.inf, 0, 2, 0, 0), r"finite `X` and `Y`"),
    ("strategy", ("history", "Y"), tensor(lambda Y: Y.squeeze(0)), r"'Y' of shape"),
    ("strategy", ("history", "recorded"), None, r"tensors named .*'recorded'"),
    ("strategy", ("history", "X", "dtype"), "_inductor", r"tensor as dtype, shape and base64"),
    ("strategy", ("history", "X", "shape"), [1, 5, 3], r"tensor as dtype, shape and base64"),
    ("strategy", ("rounds",), [100] * 5, r"'rounds' of 5 rows.*100"),
    ("strategy", ("rounds",), [0, 0, 0, 1, 1], r"at least the first 4"),
    ("strategy", ("rounds",), [0, 0, 0, 0, -5], r"'rounds' of 5 rows.*-5"),
    ("strategy", ("rounds",), [0, 0, 0, 0], r"'rounds' of 5 rows"),
    ("strategy", ("rounds",), None, r"Got no 'rounds'"),
    ("strategy", ("state", "fit f.theta"), tensor(lambda t: t[:0]), r"1 replicates. Got \(0, 3\)"),
    ("strategy", ("state", "fit f.theta"), tensor(lambda t: t[0]), r"1 replicates. Got \(3,\)"),
    ("strategy", ("format",), 0, r"format"),
    ("frame", ("rows", "waste"), lambda old: old[1:], r"Expected 10 rows of 'waste'"),
    ("frame", ("rows", "heat"), None, r"'rows' of the columns"),
    ("frame", ("rows", "heat", 0), 1e3, r"'heat' from 20 to 80.* Got 1000.0 in row 0"),
    ("frame", ("rows", "heat", 0), lambda old: None, r"the complete rows"),
    ("frame", ("joined", 0), 7, r"'joined' to number the points"),
    ("frame", ("experiment", "num_initial"), -1, r"'num_initial' of at least 1. Got -1"),
    ("strategy", ("num_initial",), 1.5, r"'num_initial' of at least 1. Got 1.5"),
    ("strategy", ("history", "asked"), tensor(lambda t: t[..., :1, 0]), r"'asked' of shape"),
    ("strategy", ("history", "running"), tensor(lambda t: t[..., :0]), r"'running' of shape"),
    ("frame", ("experiment", "history"), None, r"'experiment' to be a strategy's"),
    ("frame", ("experiment", "rounds"), [0] * 9, r"'rounds' of 4 rows"),
    ("table", ("outcomes", 0, 0), 99, r"from 0 to 11. Got 99"),
    ("table", ("outcomes", 0, 0), 1.5, r"from 0 to 11. Got 1.5"),
    ("table", ("outcomes",), lambda old: [*old, old[0]], r"each pair once"),
    ("table", ("running",), lambda old: [*old, old[0]], r"each pair once"),
    ("table", ("outcomes", 0, 1), [torch.inf], r"finite outcomes of pair"),
    ("table", ("outcomes", 0, 1), ["0.3"], r"finite outcomes of pair .* Got '0.3'"),
    ("table", ("outcomes",), {}, r"lists of pairs"),
    ("table", ("outcomes", 0), [0], r"a pair with its outcomes. Got \[0\]"),
    ("table", ("outcomes", 0), [0, 0.3], r"a pair with its outcomes. Got \[0, 0.3\]"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "edit", "message"), FAULTS)
def test_what_cannot_be_data_is_named(
    kind: str, path: tuple[Any, ...], edit: Any, message: str
) -> None:
    _, new = KINDS[kind]
    state, found = edited(state_of(kind), path, edit), new()
    before = found.state_dict()
    if path == ("format",):
        state = {**state, "format": 0}
    with pytest.raises(ValueError, match=message):
        found.load_state_dict(state)
    assert found.state_dict() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_another_format_is_named_whatever_it_has(kind: str) -> None:
    _, new = KINDS[kind]
    with pytest.raises(ValueError, match=r"^Expected a state of format 2\. Got 1\.$"):
        new().load_state_dict({"format": 1, "method": "risk_bound"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_was_built_with_does_not_depend_on_modules(kind: str) -> None:
    assert "botorch_risk" not in json.dumps(state_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_state_is_named(kind: str) -> None:
    _, new = KINDS[kind]
    found = new()
    for wrong in (None, [1, 2], "state"):
        with pytest.raises(ValueError, match=r"Expected a state from `state_dict\(\)`\. Got "):
            found.load_state_dict(wrong)
    with pytest.raises(
        ValueError, match=r"Expected a state that JSON can store\. Got an error: .*Tensor"
    ):
        found.load_state_dict({**state_of(kind), "more": torch.zeros(1)})


def test_one_asked_setting_is_loaded() -> None:
    asking, resumed = frame(), new_frame()
    settings = asking.ask(1).assign(waste=2.2)
    resumed.load_state_dict(json.loads(json.dumps(asking.state_dict())))
    for each in (asking, resumed):
        each.tell(settings)
    assert resumed.state_dict() == asking.state_dict()


@pytest.mark.parametrize(("name", "value"), [("rows", []), ("joined", {})])
def test_rows_that_are_no_columns_are_named(name: str, value: Any) -> None:
    make, new = KINDS["frame"]
    with pytest.raises(ValueError, match="'rows' of the columns"):
        new().load_state_dict(edited(make().state_dict(), (name,), value))


def test_readings_are_stored_once() -> None:
    state = frame().state_dict()
    assert state["experiment"]["history"].keys() == {"recorded", "running", "asked"}
    assert json.dumps(state).count("3.2") == 1


def test_an_experiment_whose_strategy_was_told_by_itself_is_not_saved() -> None:
    found = frame()
    found.strategy.tell(found.strategy.ask(), torch.zeros(1, 2, 2))
    with pytest.raises(UnsupportedError, match="told everything in DataFrames"):
        found.state_dict()


def table_of(conditions: Any, measure: Any = None) -> TableSearch:
    return table_search(conditions, list("uv"), risk_measure=measure or Expectation())


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        (pd.DataFrame({"T": [20.0, 40, 80]}), pd.DataFrame({"T": [20.0, 79, 80]}), "distances"),
        (
            pd.DataFrame({"base": ["x", "x", "y"]}),
            pd.DataFrame({"base": ["x", "y", "y"]}),
            "distances",
        ),
        ([1, 2, 3], ["1", "2", "3"], "conditions"),
        ([f"p{i}" for i in range(40)], [f"p{i + (i == 39)}" for i in range(40)], "conditions"),
        (
            Factors.with_distances("ab", torch.tensor([[0.0, 1.0], [1.0, 0.0]])),
            Factors.with_distances("ab", torch.tensor([[0.0, 1.5], [1.5, 0.0]])),
            "distances",
        ),
    ],
    ids=["numbers", "categories", "names", "many", "distances"],
)
def test_a_table_of_other_rows_is_another_table(first: Any, second: Any, name: str) -> None:
    state = table_of(first).state_dict()
    table_of(first).load_state_dict(json.loads(json.dumps(state)))
    with pytest.raises(ValueError, match=f"Expected {name}.*, as the state was built with"):
        table_of(second).load_state_dict(state)


def test_a_large_table_with_one_other_descriptor_is_another_table() -> None:
    numbers = torch.linspace(0, 1, 60, dtype=torch.double)[:, None].repeat(1, 2)
    other = numbers.clone()
    other[17, 1] += 1e-3
    state = table_of(numbers).state_dict()
    table_of(numbers.clone()).load_state_dict(state)
    with pytest.raises(ValueError, match=r"Expected distances\[0\]="):
        table_of(other).load_state_dict(state)


def test_a_measure_with_a_kernel_of_the_user_is_recognised() -> None:
    first, second = (
        table_of(torch.eye(3), MaximumMeanDiscrepancyBall(radius, risk_kernel))
        for radius in (0.2, 0.3)
    )
    first.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert " at 0x" not in json.dumps(first.state_dict())
    with pytest.raises(ValueError, match=r"radius=0\.2, .* Got radius=0\.3 in risk_measure"):
        second.load_state_dict(first.state_dict())
