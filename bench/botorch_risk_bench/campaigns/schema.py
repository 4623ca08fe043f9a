r"""The tables of a store, and the upgrade from the first version."""

import sqlite3

APPLICATION_ID = 0x42525843  # "BRXC", in the header of the file
VERSION = 2
VERSIONS = (1, VERSION)

KEY = "experiment, strategy, setting"
IS_KEY = "experiment = ? AND strategy = ? AND setting = ?"
BLOCK = f"{KEY}, first_seed"
COLUMNS = {
    "blocks": f"{BLOCK}, num_seeds, kind, round, state",
    "rounds": f"{KEY}, seed, round, X, Y, objective, recommendation, recommended_objective",
    "timings": f"{BLOCK}, round, ask_seconds, evaluate_seconds, tell_seconds",
    "failures": f"{BLOCK}, round, cause, traceback, host",
    "reports": f"{BLOCK}, num_rounds, host, cpu_seconds, peak_bytes",
}
# What a row is called in an error, by its columns.
NAMED = {
    "blocks": "the state of {0}, {1}, {2}, seeds from {3}",
    "rounds": "round {4} of {0}, {1}, {2}, seed {3}",
    "timings": "the times of round {4} of {0}, {1}, {2}, seeds from {3}",
    "failures": "the failure of {0}, {1}, {2}, seeds from {3}",
    "reports": "a report of {0}, {1}, {2}, seeds from {3}",
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
)
_WITHOUT_CHECKSUMS = ("timings", "failures", "reports")  # in version 1


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def upgrade(connection: sqlite3.Connection) -> None:
    r"""Add the checksums that the first version lacks."""
    if version_of(connection) == VERSION:
        return
    for table in _WITHOUT_CHECKSUMS:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum BLOB NOT NULL DEFAULT x''")
        connection.execute(f"UPDATE {table} SET checksum = checksum({COLUMNS[table]})")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def read_as_current(connection: sqlite3.Connection) -> None:
    r"""Let a reading connection see the first version like this one."""
    if version_of(connection) == VERSION:
        return
    for table in _WITHOUT_CHECKSUMS:
        connection.execute(
            f"CREATE TEMP VIEW {table} AS SELECT {COLUMNS[table]}, "
            f"checksum({COLUMNS[table]}) AS checksum FROM main.{table}"
        )
