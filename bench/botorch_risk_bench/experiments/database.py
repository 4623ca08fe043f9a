r"""The SQLite file behind a store: its schema, its checks and its errors."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botorch_risk.strategies.arguments import as_today
from botorch_risk_bench.experiments.serialization import StoreError, checksum

_TIMEOUT_SECONDS = 60.0
_NAMED_DIFFERENCES = 4  # of two identities, in an error
_IDENTITY = (
    "CREATE TABLE identity (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)"
)

_UNLOCKED = "{} to be free of other processes' locks"
_ACCESSIBLE = "{} to be readable and writable"
_EXPECTED = {  # by the code of SQLite's error
    sqlite3.SQLITE_BUSY: _UNLOCKED,
    sqlite3.SQLITE_LOCKED: _UNLOCKED,
    sqlite3.SQLITE_FULL: "room for {} on its disk",
    sqlite3.SQLITE_CANTOPEN: _ACCESSIBLE,
    sqlite3.SQLITE_IOERR: _ACCESSIBLE,
    sqlite3.SQLITE_PERM: _ACCESSIBLE,
    sqlite3.SQLITE_READONLY: _ACCESSIBLE,
}


@dataclass(frozen=True)
class Schema:
    r"""The tables of a kind of file, beside its identity.

    Args:
        kind: What a file is called in errors.
        application_id: Four letters as a number, in the header of the file.
        version: The version; other versions are refused unless `upgrades` lists them.
        tables: The SQL statements that create them.
        upgrades: Makes a file of an older version one of the next, by the older version.
        views: The SQL statements by which an older version reads like this one, unchanged.
    """

    kind: str
    application_id: int
    version: int
    tables: tuple[str, ...]
    upgrades: Mapping[int, Callable[[sqlite3.Connection], None]] = field(default_factory=dict)
    views: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


# 2: rows have checksums. Stores of version 1, from before the first release, are refused.
SCHEMA_VERSION = 2
EXPERIMENT = Schema(
    kind="an experiment store",
    application_id=0x42525831,  # "BRX1"
    version=SCHEMA_VERSION,
    tables=(
        "CREATE TABLE strategies (label TEXT PRIMARY KEY, kind TEXT NOT NULL, "
        "round INTEGER NOT NULL, state BLOB, checksum BLOB NOT NULL)",
        "CREATE TABLE rounds (label TEXT NOT NULL REFERENCES strategies, round INTEGER NOT NULL, "
        "X BLOB NOT NULL, Y BLOB NOT NULL, objective BLOB, "
        "recommendation BLOB, recommended_objective BLOB, "
        "ask_seconds REAL NOT NULL, evaluate_seconds REAL NOT NULL, tell_seconds REAL, "
        "checksum BLOB NOT NULL, PRIMARY KEY (label, round))",
    ),
)


def open_database(
    path: Path, identity: Mapping[str, Any] | None, schema: Schema = EXPERIMENT
) -> sqlite3.Connection:
    r"""Opens a store, or creates it if an identity is given and there is none.

    A store of an older version is brought up to this one if an identity is given: who gives one
    is going to write. It is compared in what it knows of the identity.

    Args:
        path: The file.
        identity: What the store has to be of, as JSON values; None accepts any.
        schema: The kind of store.

    Returns:
        A connection without implicit transactions.

    Raises:
        StoreError: If the file is missing, corrupt, locked, not a store or of another
            identity. Nothing has been changed then.
    """
    if identity is None and not path.exists():
        raise StoreError(f"Expected {path} to exist. Got no such file.")
    uri = f"{path.absolute().as_uri()}?mode={'rw' if identity is None else 'rwc'}"
    with clear_errors(path):
        connection = sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_SECONDS, isolation_level=None)
        connection.create_function("checksum", -1, checksum, deterministic=True)
        try:
            if identity is not None and _is_empty(connection):
                with transaction(connection, path):
                    if _is_empty(connection):  # unless another process has just created it
                        _create(connection, identity, schema)
            _check_file(connection, path, schema)
            if identity is not None:
                found, current = read_identity(connection, path), _is_current(connection, schema)
                known = identity.keys() if current else identity.keys() & found.keys()
                check_identity(found, {key: identity[key] for key in known}, path)
                if not current:
                    with transaction(connection, path):
                        upgrade(connection, schema)
                        write_identity(connection, identity)
        except BaseException:
            connection.close()
            raise
    return connection


def read_identity(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    r"""The identity that a store was created with.

    Raises:
        StoreError: If a key or a value has been changed, added or removed since.
    """
    rows = connection.execute("SELECT key, value, checksum FROM identity ORDER BY key").fetchall()
    expected = checksum(*(cell for row in rows for cell in row[:2]))
    if not rows or any(stored != expected for _, _, stored in rows):
        raise StoreError(
            f"Expected the identity of {path} to be intact. Got {len(rows)} values that do not "
            "fit their checksum."
        )
    return {key: json.loads(value) for key, value, _ in rows}


def check_row(what: str, path: Path, values: Sequence[Any], stored: Any) -> None:
    r"""Raises a StoreError that names the row unless its values fit their checksum."""
    if stored != checksum(*values):
        raise StoreError(
            f"Expected {what} in {path} to be intact. Got values that do not fit their checksum."
        )


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    r"""All or nothing, with the lock of the only writer."""
    with clear_errors(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


@contextmanager
def snapshot(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    r"""Reads of one moment, whatever another process writes; within a transaction, of that."""
    if connection.in_transaction:
        yield
        return
    with clear_errors(path):
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    r"""Raises SQLite's errors as `StoreError`, with the file and the likely cause."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(
            f"Expected no other process to write this round to {path}. Got {error}."
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # 0: Python could not read a text
        expected = _EXPECTED.get(code, "{} to be an intact store").format(path)
        raise StoreError(f"Expected {expected}. Got {error}.") from error


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return tables == 0 and _pragma(connection, "application_id") == 0


def _create(connection: sqlite3.Connection, identity: Mapping[str, Any], schema: Schema) -> None:
    for statement in (_IDENTITY, *schema.tables):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.application_id}")
    connection.execute(f"PRAGMA user_version = {schema.version}")
    write_identity(connection, identity)


def upgrade(connection: sqlite3.Connection, schema: Schema) -> None:
    r"""Makes a file of an older version one of this version."""
    while (found := _pragma(connection, "user_version")) in schema.upgrades:
        schema.upgrades[found](connection)
        connection.execute(f"PRAGMA user_version = {found + 1}")


def read_as_current(connection: sqlite3.Connection, schema: Schema) -> None:
    r"""Lets a connection that does not write read a file of an older version like a new one."""
    for statement in schema.views.get(_pragma(connection, "user_version"), ()):
        connection.execute(statement)


def _is_current(connection: sqlite3.Connection, schema: Schema) -> bool:
    return bool(_pragma(connection, "user_version") == schema.version)


def write_identity(connection: sqlite3.Connection, identity: Mapping[str, Any]) -> None:
    r"""Writes the identity of a store, in place of one that it has."""
    connection.execute("DELETE FROM identity")
    rows = sorted((key, json.dumps(value)) for key, value in identity.items())
    whole = checksum(*(cell for row in rows for cell in row))
    connection.executemany("INSERT INTO identity VALUES (?, ?, ?)", [(*row, whole) for row in rows])


def _check_file(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    if _pragma(connection, "application_id") != schema.application_id:
        raise StoreError(f"Expected {path} to be {schema.kind}. Got another file.")
    known = schema.version, *schema.upgrades
    if (found := _pragma(connection, "user_version")) not in known:
        raise StoreError(
            f"Expected schema {schema.version} of stores, with checksums, in {path}. Got schema "
            f"{found}, which this version cannot read; run the experiment again into a new file."
        )
    if (found := _pragma(connection, "quick_check")) != "ok":
        raise StoreError(f"Expected {path} to be intact. Got {found!r}.")


def check_identity(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    r"""Raises a StoreError that names what differs between two identities."""
    stored = dict(_leaves(as_today(found)))
    expected = dict(_leaves(json.loads(json.dumps(dict(wanted)))))
    differing = [
        f"{key}={_abridged(stored.get(key))} there, {_abridged(expected.get(key))} here"
        for key in stored | expected
        if stored.get(key) != expected.get(key)
    ]
    if differing:
        named = differing[:_NAMED_DIFFERENCES]
        named += [f"{more} more"] if (more := len(differing) - len(named)) else []
        raise StoreError(f"Expected {path} to be of this experiment. Got {'; '.join(named)}.")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    r"""The values in nested mappings, and in lists of mappings, by dotted names."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{name}[{index}]")
    else:
        yield name, value


def _abridged(value: Any) -> str:
    r"""Both ends of a long value, as lists of seeds mostly differ in the last."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:28]}...{text[-28:]}"
