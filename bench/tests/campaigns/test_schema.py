import sqlite3
from pathlib import Path

from botorch_risk_bench.campaigns import CampaignStore
from botorch_risk_bench.campaigns.schema import COLUMNS, NAMED

from bench.tests.campaigns.small import as_first_version, run_here, small


def columns(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    found = {
        table: ", ".join(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
        for table in COLUMNS
    }
    connection.close()
    return found


def test_each_table_has_a_checksum_after_its_columns_and_a_name_for_its_rows(path: Path) -> None:
    assert columns(path) == {table: f"{each}, checksum" for table, each in COLUMNS.items()}
    assert COLUMNS.keys() == NAMED.keys()


def test_a_store_that_was_brought_up_to_date_has_the_same_columns(path: Path) -> None:
    new = columns(path)
    as_first_version(path)
    assert columns(path) != new
    run_here(small(), path)
    assert columns(path) == new


def test_views_of_the_first_version_have_the_same_columns(path: Path) -> None:
    as_first_version(path)
    with CampaignStore(path) as store:
        for table, names in COLUMNS.items():
            next(store.select(f"SELECT {names}, checksum FROM {table}"), None)
        (kinds,) = next(store.select("SELECT group_concat(DISTINCT type) FROM sqlite_temp_master"))
    assert kinds == "view"
