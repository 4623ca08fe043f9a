r"""Stores that somebody has made to do harm: reading them ends soon, in one line, and does none."""

import gzip
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.campaigns import CampaignStore, Series
from botorch_risk_bench.campaigns.database import checksum, write_identity
from botorch_risk_bench.campaigns.description import blocks_of
from botorch_risk_bench.campaigns.schema import COLUMNS
from botorch_risk_bench.campaigns.worker import Failure, Report
from botorch_risk_bench.cli import app
from botorch_risk_bench.printed import printable
from typer.testing import CliRunner, Result

from botorch_risk.strategies.built_with import from_json, to_json

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
NESTED = "[" * 100_000
RED = "\x1b[31m"


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["campaign", *map(str, words)])


def script(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def with_identity(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    r"""Change the description of a store, with checksums that fit."""
    with CampaignStore(path) as store:
        identity = store.identity
    change(identity)
    with closing(sqlite3.connect(path)) as connection, connection:
        write_identity(connection, identity)


def with_raw_identity(path: Path, key: str, text: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = dict(connection.execute("SELECT key, value FROM identity")) | {key: text}
        whole = checksum(*(cell for row in sorted(rows.items()) for cell in row))
        connection.execute("UPDATE identity SET value = ? WHERE key = ?", (text, key))
        connection.execute("UPDATE identity SET checksum = ?", (whole,))


def with_cells(path: Path, table: str, **cells: Any) -> None:
    r"""Change all rows of a table, with checksums that fit."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("checksum", -1, checksum)
        for name, value in cells.items():
            connection.execute(f"UPDATE {table} SET {name} = ?", (value,))
        connection.execute(f"UPDATE {table} SET checksum = checksum({COLUMNS[table]})")


def endless(table: str) -> Callable[[Path], None]:
    cells = f"{COLUMNS.get(table, 'key, value')}, checksum".split(", ")
    view = f"CREATE VIEW {table} AS SELECT {', '.join(f'i AS {name}' for name in cells)} FROM "
    return lambda path: script(path, f"DROP TABLE {table}", view + f"({ENDLESS})")


def first_series(change: dict[str, Any]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with_identity(path, lambda identity: identity["spelled_out"][0].update(change))

    return spoil


def of_experiment(**change: Any) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        def update(identity: dict[str, Any]) -> None:
            identity["experiments"]["quadratic"]["default"].update(change)

        with_identity(path, update)

    return spoil


HOSTILE: dict[str, tuple[Callable[[Path], Any], str]] = {
    **{f"endless {table}": (endless(table), "the view") for table in ("identity", *COLUMNS)},
    "another table": (lambda path: script(path, "CREATE TABLE more (x)"), "the table 'more'"),
    "a trigger": (
        lambda path: script(
            path, "CREATE TRIGGER t AFTER INSERT ON rounds BEGIN DELETE FROM rounds; END"
        ),
        "the trigger 't'",
    ),
    "another column": (
        lambda path: script(path, "ALTER TABLE rounds ADD COLUMN z AS (zeroblob(seed * 9))"),
        "the table 'rounds' with other columns",
    ),
    "10^11 seeds": (first_series({"num_seeds": 10**11}), "at most 10,000,000 seeds"),
    "10^11 rounds": (first_series({"num_rounds": 10**11}), "at most 10,000,000 seeds"),
    "seeds beyond numbers": (first_series({"first_seed": 10**40}), r"below 2\*\*62"),
    "nested values": (lambda path: with_raw_identity(path, "campaign", NESTED), "as JSON"),
    "no experiments": (lambda path: with_raw_identity(path, "experiments", "7"), "a campaign"),
    "no campaign": (lambda path: with_raw_identity(path, "campaign", "[[]]"), "a campaign"),
    "series of numbers": (lambda path: with_raw_identity(path, "spelled_out", "[1]"), "a campaign"),
    "a dtype of code": (of_experiment(dtype="_inductor"), "dtype='_inductor'"),
    "an optimum of text": (of_experiment(optimal_value="much"), "optimal_value='much'"),
}


@pytest.mark.parametrize(("spoil", "message"), HOSTILE.values(), ids=HOSTILE)
def test_reading_ends_in_one_line(spoil: Callable[[Path], Any], message: str, path: Path) -> None:
    spoil(path)
    for words in (["campaign", "status"], ["campaign", "table"], ["campaign", "board"], ["plot"]):
        result = CliRunner().invoke(app, [*words, str(path)])
        assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("Error: Expected ") and re.search(message, result.stderr)


@pytest.mark.parametrize("cells", [NESTED, '{"a": 1}', "[[1], 2]", "text", '"NaN"'])
def test_cells_that_are_no_numbers_are_named(cells: str, path: Path, tmp_path: Path) -> None:
    with_cells(path, "rounds", X=cells, recommended_objective=cells)
    for words in (("table", path), ("table", path, "--to", tmp_path / "a.csv"), ("board", path)):
        result = invoke(*words)
        if cells == '"NaN"':  # a number for `float`, and none for a tensor
            continue
        assert result.exit_code == 2 and "Expected numbers in each round" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_blocks_of_endless_rounds_are_named_and_not_counted(path: Path) -> None:
    for column in ("num_seeds", "round"):
        with_cells(path, "blocks", **{column: 10**11})
        result = invoke("status", path)
        assert result.exit_code == 2 and "no block of the campaign has played it" in result.stdout
        assert invoke("table", path).exit_code == 2


def test_runs_are_counted_before_they_are_listed() -> None:
    names = tuple(map(str, range(1000)))
    series = Series(names, names, num_seeds=1000, num_rounds=1)
    with pytest.raises(ValueError, match=r"at most 10,000,000 runs\. Got 1,000,000,000"):
        blocks_of([series], 1)


def test_a_terminal_is_told_nothing_but_text(path: Path) -> None:
    with CampaignStore(path) as store:
        failure = Failure(4, f"{RED}\x9d52;c;c2g=\x07no\n    damaged: nothing")
        store.commit(Report(store.blocks()[0], failure=failure))
    with_identity(path, lambda identity: identity["campaign"].update(name=f"night{RED}"))
    shown = invoke("status", path).stdout
    assert "night\\x1b[31m: 12 of 12" in shown
    assert "round 4: \\x1b[31m\\x9d52;c;c2g=\\x07no\\n    damaged: nothing\n" in shown
    for command in ("table", "board"):
        assert all(each == "\n" or each.isprintable() for each in invoke(command, path).output)
    assert printable("a\nb", kept="\n") == "a\nb" and printable("µ £\u202e") == "µ £\\u202e"


def test_a_spreadsheet_computes_no_name(path: Path, tmp_path: Path) -> None:
    with CampaignStore(path) as store:
        text = json.dumps(store.identity)
    identity = json.loads(text.replace('"quadratic"', '"=cmd|x"').replace('"averse"', '"@neg"'))
    with closing(sqlite3.connect(path)) as connection, connection:
        write_identity(connection, identity)
    for table in COLUMNS:
        change = (
            "UPDATE {} SET experiment = '=cmd|x', strategy = replace(strategy, 'averse', '@neg')"
        )
        script(path, change.format(table))
        with_cells(path, table)
    assert invoke("table", path, "--to", tmp_path / "a.csv").exit_code == 0
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert {line.split(",")[0] for line in lines[1:]} == {"'=cmd|x"}
    assert {line.split(",")[2] for line in lines[1:]} == {"'@neg", "neutral"}
    assert lines[1].split(",")[5].startswith("-")  # numbers stay numbers


REGRETS = [NESTED, "[]", "7", '{"name": "a"}', '{"experiments": [1], "strategies": [], "name": ""}']


@pytest.mark.parametrize("text", REGRETS)
def test_files_of_regrets_end_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    result = invoke("board", tmp_path / "a.json.gz")
    assert result.exit_code == 2 and "Error: Expected regrets in" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_state_names_no_part_of_torch_but_its_dtypes() -> None:
    for dtype in (torch.float64, torch.float32, torch.int64, torch.bool):
        value = torch.tensor([[1, 0]]).to(dtype)
        assert torch.equal(from_json(to_json(value)), value)
    for name in ("_inductor", "load", "float", 7):
        with pytest.raises(ValueError, match="Expected a tensor as dtype, shape and base64"):
            from_json({"dtype": name, "shape": [1], "base64": ""})
