r"""Whatever is changed or missing in a store is named, and played again where it was played."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import Campaign, CampaignStore, Series
from botorch_risk_bench.campaigns.schema import COLUMNS, PRIMARY
from botorch_risk_bench.campaigns.worker import Failure, Report
from botorch_risk_bench.cli import app
from typer.testing import CliRunner, Result

from bench.tests.campaigns.small import MODULE, run_here
from bench.tests.played import bytes_of, change


def two_experiments() -> Campaign:
    series = [
        Series("quadratic", ("averse", "neutral"), num_seeds=4, num_rounds=3),
        Series("slow", ("random",), num_seeds=2, num_rounds=2),
    ]
    return Campaign("two", series, block_size=2, modules=(MODULE,))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    r"""A store that has run; one of its blocks failed when it was to be run for longer."""
    path = tmp_path_factory.mktemp("damage") / "a.sqlite"
    run_here(two_experiments(), path)
    with CampaignStore(path) as store:
        store.commit(Report(store.blocks()[0], failure=Failure(4, "no convergence")))
    return path


def status(path: Path) -> Result:
    return CliRunner().invoke(app, ["campaign", "status", str(path)])


def rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4, 5").fetchall()


def name_of(table: str, row: tuple[Any, ...]) -> str:
    r"""How a row is called, written down again: what it is, of what and of which seeds."""
    series = ", ".join(map(str, row[:3]))
    return {
        "rounds": lambda: f"round {row[4]} of {series}, seed {row[3]}",
        "timings": lambda: f"the times of round {row[4]} of {series}, seeds from {row[3]}",
        "blocks": lambda: f"the state of {series}, seeds from {row[3]}",
        "failures": lambda: f"the failure of {series}, seeds from {row[3]}",
        "reports": lambda: f"a report of {series}, seeds from {row[3]}",
        "tallies": lambda: f"the tally of {series}, seeds from {row[3]}",
    }[table]()


def flipped(cell: Any, stream: random.Random) -> Any:
    r"""The cell with one bit changed, in the type that SQLite gives it."""
    if isinstance(cell, float):
        return cell * 1.5 + 1.0
    if isinstance(cell, int):
        return cell ^ 1 << stream.randrange(4, 12)  # no other row has this number
    data = bytearray(cell if isinstance(cell, bytes) else cell.encode())
    data[stream.randrange(len(data))] ^= 1 << stream.randrange(8)
    return bytes(data)


def spoil(path: Path, stream: random.Random, delete: bool) -> str:
    r"""Change or delete one cell or row of any table; the name of the row."""
    table = stream.choice(sorted(COLUMNS))
    row = stream.choice(rows(path, table))
    names = [*COLUMNS[table].split(", "), "checksum"]
    keys = (PRIMARY[table] or COLUMNS[table]).split(", ")
    where = " AND ".join(f"{each} IS ?" for each in keys)
    if delete:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"DELETE FROM {table} WHERE {where}", row[: len(keys)])
        return name_of(table, row)
    column = stream.choice([k for k, cell in enumerate(row) if cell not in (None, "", b"")])
    new = flipped(row[column], stream)
    value = "CAST(? AS TEXT)" if isinstance(row[column], str) else "?"
    statement = f"UPDATE {table} SET {names[column]} = {value} WHERE {where}"
    change(path, statement, new, *row[: len(keys)])
    return name_of(table, row)


def check(finished: Path, folder: Path, num_changes: int, num_deletions: int) -> None:
    whole = bytes_of(finished)
    deletes = [False] * num_changes + [True] * num_deletions
    for seed, delete in enumerate(deletes):
        path = Path(shutil.copy(finished, folder / "a.sqlite"))
        name = spoil(path, random.Random(seed), delete)
        shown = status(path)
        assert shown.exit_code == 2, (seed, name, shown.output)
        damaged = [line for line in shown.stdout.splitlines() if line.startswith("    damaged: ")]
        first = f"    damaged: {name}"
        assert any(line.startswith(first) for line in damaged), (seed, name, damaged)
        resumed = run_here(two_experiments(), path)
        assert resumed <= 1  # the failure of the beginning, unless its block was played again
        assert bytes_of(path) == whole
        assert status(path).exit_code == 0, (seed, name, status(path).output)


def test_any_change_or_deletion_is_named_and_mended(finished: Path, tmp_path: Path) -> None:
    check(finished, tmp_path, num_changes=24, num_deletions=8)


@pytest.mark.slow
def test_everything_that_is_changed_or_deleted_is_named_and_mended(
    finished: Path, tmp_path: Path
) -> None:
    check(finished, tmp_path, num_changes=200, num_deletions=30)
