r"""What a DataFrame may hold is checked before anything is computed, and errors say where."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError

from botorch_risk.frames import FrameExperiment
from botorch_risk.frames.named_columns import NamedColumn
from botorch_risk.papers import Maximize, rahbo, risk_kde, truvar
from botorch_risk.risk import Expectation
from botorch_risk.strategies import Box, LinearLimit
from tests.strategies.bakery import TABLE, baker, twice


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ((20, 80), (20, 80)),
        ((1, 8, 1), (1, 8)),
        ((20, 80, 5), (0, 12)),
        ((0.1, 0.9, 0.1), (0, 8)),
        ((-0.5, 1.5, 1), (0, 2)),
        ((1e-9, 9e-9, 1e-9), (0, 8)),
        (["rye", "wheat"], (0, 1)),
        ([True, False], (0, 1)),
        (("a", "b", "c"), (0, 2)),
    ],
)
def test_numbers_stand_for_values_and_back(values: Any, bounds: Any) -> None:
    column = NamedColumn.of("x", values)
    assert column.bounds == bounds
    if column.step is None and not column.labels:
        codes = np.linspace(*bounds, 7).tolist()
    else:
        codes = np.arange(bounds[0], bounds[1] + 1).tolist()
    found = [column.value(code) for code in codes]
    assert [column.code(value) for value in found] == codes
    if column.labels:
        assert found == list(values)
    elif column.step is not None:
        expected = values[0] + values[2] * np.arange(len(codes))
        np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-12)
        assert all(isinstance(each, int) for each in found) == column.is_whole


def test_labels_of_two_kinds_are_not_taken_for_each_other() -> None:
    switch, text = NamedColumn.of("x", [True, False]), NamedColumn.of("x", ["1", "0"])
    assert [switch.code(each) for each in (True, False, 1, 0.0, "True")] == [0, 1, None, None, None]
    assert [text.code(each) for each in (np.str_("0"), "0", 0, False)] == [1, 1, None, None]


def test_a_number_by_its_logarithm() -> None:
    column = NamedColumn.of("rate", (1e-5, 0.1, "log"))
    assert column.bounds == pytest.approx((-5, -1))
    assert [column.value(code) for code in (-5, -4, -3.0000000000000004, -1)] == [
        1e-5,
        1e-4,
        1e-3,
        0.1,
    ]
    assert [column.code(value) for value in (1e-3, 0.0, -1.0, 0.2, "1e-3")] == [
        pytest.approx(-3),
        *4 * [None],
    ]
    assert str(column) == "'rate' from 1e-05 to 0.1 by its logarithm"
    values = [column.value(code) for code in np.linspace(-5, -1, 7)]
    assert [column.value(column.code(value) or 0.0) for value in values] == values


@pytest.mark.parametrize("values", [(0, 1, "log"), (2, 1, "log"), (1, "log"), (1, None, "log")])
def test_a_logarithm_needs_positive_numbers(values: Any) -> None:
    with pytest.raises(ValueError, match=r"0 < low < high|to be a tuple"):
        NamedColumn.of("rate", values)


def test_where_no_logarithm_can_be() -> None:
    rate = {"rate": (1e-3, 1.0, "log")}
    with pytest.raises(ValueError, match="'rate' on a logarithmic scale"):
        FrameExperiment(
            {"x": (0, 1)}, {"y": "maximize"}, risk_kde, contexts=rate, risk_measure=Expectation()
        )
    with pytest.raises(UnsupportedError, match="'rate' on a logarithmic scale"):
        FrameExperiment(
            rate,
            {"y": "maximize"},
            rahbo,
            limits=[LinearLimit({"rate": 1.0}, "<=", 0.5)],
            num_repeats=2,
            risk_aversion=1.0,
        )


def test_steps_have_no_digits_of_rounding() -> None:
    column = NamedColumn.of("x", (0.1, 0.9, 0.1))
    assert [column.value(code) for code in range(3)] == [0.1, 0.2, 0.3]


FINE = [(0, 1000, 0.001), (0, 5_000_000, 1), (-3, 7, 1e-6), (1e6, 1e6 + 1, 1e-5), (0, 1, 1 / 3)]


@pytest.mark.parametrize("values", FINE, ids=str)
def test_a_fine_step_is_a_step(values: tuple[float, float, float]) -> None:
    r"""However many there are, a number between two steps is neither."""
    column, (lower, _, step) = NamedColumn.of("x", values), values
    last = column.bounds[1] if step != 1 else values[1]
    for share in np.random.default_rng(0).random(200):
        code = float(round(share * last))
        told = column.value(code)
        assert column.code(told) == code
        assert abs(told - (lower + code * step)) <= 1e-9 * step + 4 * np.spacing(abs(told))
        for off in (0.4, -0.01, 1e-3):
            assert column.code(told + off * step) is None
    assert column.code(lower - step) is column.code(values[1] + step) is None


def test_integers_of_a_large_range_are_whole_and_inside() -> None:
    box = Box(torch.tensor([[0.0], [5e6]], dtype=torch.double), integers=[0])
    for off in (2500000.4, 2500000.001, 5000003.0, -2.0):
        with pytest.raises(InputDataError, match=r"Expected (whole numbers|points within)"):
            box.checked(torch.tensor([[[off]]], dtype=torch.double))
    assert box.checked(torch.tensor([[[2500000.0000001]]]).double()).item() == 2500000
    single = Box(torch.tensor([[0.0], [5e6]]), integers=[0])
    assert single.checked(torch.tensor([[[4999999.0]]])).item() == 4999999


@pytest.mark.parametrize(
    "values",
    [
        "rye",
        ["rye"],
        ["rye", "rye"],
        ["rye", 1],
        [1, 2, 3],
        [20, 80],
        range(8),
        {"rye"},
        (80, 20),
        (20, 20),
        (20, np.inf),
        (np.nan, 1),
        (20, 80, 7),
        (20, 80, -5),
        (20, 80, 0),
        (20, 80, 100),
        (20, 80, 5, 1),
        (True, False, 1),
        ("0", "1"),
        ("20", 80),
        (0, 1, 0.3334),
        (0, 1000, 0.0010000004),
        (1e15, 1e15 + 10, 0.5),
        (0, 1, 1e-13),
        [["rye"], ["wheat"]],
        None,
        5,
    ],
    ids=repr,
)
def test_other_descriptions_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected 'flour' to .* Got "):
        NamedColumn.of("flour", values)


def with_value(name: str, value: Any, row: int = 3) -> Any:
    def spoil(table: pd.DataFrame) -> pd.DataFrame:
        values = table[name].astype(object).tolist()
        values[row] = value
        return table.assign(**{name: values})

    return spoil


WRONG: list[tuple[Any, str]] = [
    (lambda t: t.assign(cook="Ann"), r"no other. Got also: 'cook'"),
    (lambda t: t.drop(columns="heat"), r"all of them. Missing: 'heat'"),
    (lambda t: t.drop(columns="rise"), r"Missing: 'rise'"),
    (lambda t: t.rename(columns={"heat": "Heat"}), r"Got also: 'Heat'"),
    (lambda t: pd.concat([t, t[["heat"]]], axis=1), r"each column once. Got twice: 'heat'"),
    (with_value("flour", "spelt"), r"'flour' to be one of \['rye'.*\. Got 'spelt' in row 3"),
    (with_value("flour", "Rye"), r"Got 'Rye' in row 3"),
    (with_value("flour", 0), r"Got 0 in row 3"),
    (with_value("heat", 149.9), r"'heat' from 150 to 250 °C\. Got 149.9 in row 3"),
    (with_value("heat", np.inf), r"Got inf in row 3"),
    (with_value("heat", "hot"), r"Got 'hot' in row 3"),
    (with_value("heat", True), r"Got True in row 3"),
    (with_value("trays", 2.5), r"'trays' from 1 to 8 in steps of 1. Got 2.5 in row 3"),
    (with_value("trays", 9), r"Got 9 in row 3"),
    (with_value("rise", "n/a"), r"'rise' to be a finite number, or missing. Got 'n/a' in row 3"),
    (with_value("rise", -np.inf), r"Got -inf in row 3"),
    (with_value("rise", False), r"Got False in row 3"),
    (with_value("rise", 1 + 2j), r"Got \(.*j\) in row 0"),
    (with_value("rise", pd.Timestamp("2026-01-01")), r"Got Timestamp.* in row 3"),
    (lambda t: t.assign(rise=["1.5", "12,5"] * 6), r"Got '12,5' in row 1"),  # not the first text
    (lambda t: t.assign(rise=["1.5"] * 12), r"Got '1.5' in row 0"),
    (lambda t: t.assign(heat=0).set_index("flour", drop=False), r"Got 0 in row '\w+'"),
]


@pytest.mark.parametrize(("spoil", "message"), WRONG)
@pytest.mark.handful
def test_wrong_values_name_column_row_and_value_and_change_nothing(
    spoil: Any, message: str
) -> None:
    experiment = baker(units={"heat": "°C"})
    table = twice(experiment.ask())
    experiment.tell(table)
    before = experiment.state_dict()
    with pytest.raises(InputDataError, match=f"Expected .*{message}"):
        experiment.tell(spoil(table))
    assert experiment.state_dict() == before


@pytest.mark.parametrize("frame", [None, {"heat": [200.0]}, [[200.0, "rye", 1]]])
def test_other_tables_are_refused(frame: Any) -> None:
    for take in (baker().tell, baker().predict):
        with pytest.raises(TypeError, match=r"Expected a DataFrame. Got \w+"):
            take(frame)


def test_predictions_check_what_they_read() -> None:
    experiment = baker()
    experiment.tell(twice(experiment.ask()))
    settings = experiment.data[list(TABLE)]
    for wrong, message in (
        (settings.assign(cook="Ann"), "Got also: 'cook'"),
        (settings.drop(columns="heat"), "Missing: 'heat'"),
        (with_value("flour", "spelt")(settings), "Got 'spelt' in row 3"),
        (with_value("heat", None)(settings), r"all settings in each row. Got none in row 3"),
    ):
        with pytest.raises(InputDataError, match=message):
            experiment.predict(wrong)
    pd.testing.assert_frame_equal(experiment.predict(settings), experiment.predict(experiment.data))


@pytest.mark.parametrize(
    "convert",
    [
        lambda t: t.convert_dtypes(),
        lambda t: t.astype({"flour": "category"}),
        lambda t: t.astype({"flour": object, "trays": float, "rise": "float32"}),
        lambda t: t.astype({"trays": "Int64"}),
        lambda t: t.set_index(pd.Index(list("abcdefghijkl"))),
    ],
)
@pytest.mark.slow
def test_the_kinds_of_columns_that_pandas_knows_mean_the_same(convert: Any) -> None:
    table = twice(baker().ask())
    table["rise"] = table["rise"].round()
    table.loc[2, "rise"] = np.nan
    plain, converted = baker(), baker()
    plain.tell(table)
    converted.tell(convert(table))
    pd.testing.assert_frame_equal(plain.data, converted.data, check_dtype=False)
    pd.testing.assert_frame_equal(plain.ask(), converted.ask())
    assert plain.unused.tolist() == converted.unused.tolist() == ["rise"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["155", "165.5", "3.5 bar", "160"], r"from 150 to 250. Got '3.5 bar' in row 2, which is"),
        (["155", "165.5", "n/a?", "1e9"], r"Got 'n/a\?' in row 2, which is text"),
        (["155", "165.5", "170", "160"], r"from 150 to 250. Got '155' in row 0, which is text"),
        ([155.0, 999.0, 170.0, 160.0], r"from 150 to 250. Got 999.0 in row 1\.$"),
    ],
)
def test_a_bad_cell_of_settings_is_named_and_no_good_one(values: list[Any], message: str) -> None:
    experiment = baker()
    table = twice(experiment.ask()).iloc[:4].assign(heat=values)
    for answer in (experiment.tell, experiment.predict):
        with pytest.raises(InputDataError, match=message):
            answer(table)
    settings = pd.DataFrame({"x": values})
    if any(isinstance(each, str) for each in values):
        with pytest.raises(InputDataError, match=r"'x' to be a finite number.* which is text"):
            FrameExperiment(settings, {"y": None}, truvar, goal=Maximize(), noise=1.0)
