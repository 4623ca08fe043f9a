import sqlite3
from pathlib import Path

from botorch_risk_bench.campaigns.schema import COLUMNS, NAMED


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
