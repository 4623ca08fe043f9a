r"""All that a resumed store has to share with the uninterrupted one, as bytes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

# The checksum of a round is of its timings as well.
SECONDS = {"ask_seconds", "evaluate_seconds", "tell_seconds", "checksum"}


def table(path: Path) -> dict[str, list[dict[str, Any]]]:
    r"""Every column of every row but the timings, read without the package."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    rows = {
        name: [
            {key: row[key] for key in row.keys() if key not in SECONDS}  # noqa: SIM118
            for row in connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2")
        ]
        for name in ("identity", "strategies", "rounds")
    }
    connection.close()
    return rows
