r"""The tables of a store."""

import sqlite3

APPLICATION_ID = 0x42525843  # "BRXC", in the header of the file
VERSION = 3

KEY = "experiment, strategy, setting"
IS_KEY = "experiment = ? AND strategy = ? AND setting = ?"
BLOCK = f"{KEY}, first_seed"
IS_BLOCK = f"{IS_KEY} AND first_seed = ?"
COLUMNS = {
    "blocks": f"{BLOCK}, num_seeds, kind, round, state",
    "rounds": f"{KEY}, seed, round, X, Y, objective, recommendation, recommended_objective",
    "timings": f"{BLOCK}, round, ask_seconds, evaluate_seconds, tell_seconds",
    "failures": f"{BLOCK}, round, cause, traceback, host",
    "reports": f"{BLOCK}, num_rounds, host, cpu_seconds, peak_bytes",
    "tallies": f"{BLOCK}, num_reports, has_failed",
}
PRIMARY = {
    "identity": "key",
    "blocks": BLOCK,
    "rounds": f"{KEY}, seed, round",
    "timings": f"{BLOCK}, round",
    "failures": BLOCK,
    "reports": "",
    "tallies": BLOCK,
}
# What a row is called in an error, by its columns.
NAMED = {
    "blocks": "the state of {0}, {1}, {2}, seeds from {3}",
    "rounds": "round {4} of {0}, {1}, {2}, seed {3}",
    "timings": "the times of round {4} of {0}, {1}, {2}, seeds from {3}",
    "failures": "the failure of {0}, {1}, {2}, seeds from {3}",
    "reports": "a report of {0}, {1}, {2}, seeds from {3}",
    "tallies": "the tally of {0}, {1}, {2}, seeds from {3}",
}
_NAMES = "experiment TEXT NOT NULL, strategy TEXT NOT NULL, setting TEXT NOT NULL"
TABLES = (
    "CREATE TABLE identity (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)",
    f"CREATE TABLE blocks ({_NAMES}, first_seed INTEGER NOT NULL, num_seeds INTEGER NOT NULL, "
    "kind TEXT NOT NULL, round INTEGER NOT NULL, state TEXT, checksum BLOB NOT NULL, "
    f"PRIMARY KEY ({BLOCK})) WITHOUT ROWID",
    f"CREATE TABLE rounds ({_NAMES}, seed INTEGER NOT NULL, round INTEGER NOT NULL, "
    "X TEXT NOT NULL, Y TEXT NOT NULL, objective TEXT, recommendation TEXT NOT NULL, "
    "recommended_objective TEXT, checksum BLOB NOT NULL, "
    f"PRIMARY KEY ({KEY}, seed, round)) WITHOUT ROWID",
    f"CREATE TABLE timings ({_NAMES}, first_seed INTEGER NOT NULL, round INTEGER NOT NULL, "
    "ask_seconds REAL NOT NULL, evaluate_seconds REAL NOT NULL, tell_seconds REAL NOT NULL, "
    f"checksum BLOB NOT NULL, PRIMARY KEY ({BLOCK}, round)) WITHOUT ROWID",
    f"CREATE TABLE failures ({_NAMES}, first_seed INTEGER NOT NULL, round INTEGER NOT NULL, "
    "cause TEXT NOT NULL, traceback TEXT NOT NULL, host TEXT NOT NULL, "
    f"checksum BLOB NOT NULL, PRIMARY KEY ({BLOCK})) WITHOUT ROWID",
    f"CREATE TABLE reports ({_NAMES}, first_seed INTEGER NOT NULL, "
    "num_rounds INTEGER NOT NULL, host TEXT NOT NULL, cpu_seconds REAL NOT NULL, "
    "peak_bytes INTEGER NOT NULL, checksum BLOB NOT NULL)",
    f"CREATE TABLE tallies ({_NAMES}, first_seed INTEGER NOT NULL, "
    "num_reports INTEGER NOT NULL, has_failed INTEGER NOT NULL, checksum BLOB NOT NULL, "
    f"PRIMARY KEY ({BLOCK})) WITHOUT ROWID",
)
_COUNTED = (
    f"SELECT {BLOCK}, sum(num_reports) AS num_reports, sum(has_failed) AS has_failed FROM ("
    f"SELECT {BLOCK}, 1 AS num_reports, 0 AS has_failed FROM reports "
    f"UNION ALL SELECT {BLOCK}, 0, 1 FROM failures "
    f"UNION ALL SELECT {BLOCK}, 0, 0 FROM blocks) GROUP BY {BLOCK}"
)
_TALLIES = f"SELECT *, checksum({COLUMNS['tallies']}) AS checksum FROM ({_COUNTED})"


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def count_again(connection: sqlite3.Connection) -> None:
    r"""Write the tallies of the reports and failures that are there."""
    connection.execute("DELETE FROM tallies")
    connection.execute(f"INSERT INTO tallies {_TALLIES}")


def foreign_part(connection: sqlite3.Connection) -> str | None:
    r"""The first part of a database that no store has; None if it has the tables of a store alone.

    Reading a view or a virtual table may never end.
    """
    expected = {table: _columns(table) for table in PRIMARY}
    query = "SELECT type, name, rootpage, sql FROM main.sqlite_master"
    for kind, name, page, sql in connection.execute(query).fetchall():
        if str(name).startswith("sqlite_") and (kind, sql) == ("index", None):
            continue
        if kind != "table" or name not in expected or not page:
            return f"the {kind} {name!r}"
        if _found_columns(connection, name) != expected.pop(name):
            return f"the table {name!r} with other columns"
    return f"no table {min(expected)!r}" if expected else None


def _columns(table: str) -> list[tuple[str, int, int]]:
    r"""Names, positions in the primary key, and 0 for each that is neither hidden nor computed."""
    names = [*COLUMNS.get(table, "key, value").split(", "), "checksum"]
    key = PRIMARY[table].split(", ")
    return [(name, key.index(name) + 1 if name in key else 0, 0) for name in names]


def _found_columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, int, int]]:
    rows = connection.execute(f"PRAGMA main.table_xinfo({table})").fetchall()
    return [(name, position, hidden) for _, name, _, _, _, position, hidden in rows]
