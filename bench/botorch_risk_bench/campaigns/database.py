r"""The SQLite file behind a store: its checks, its transactions and its errors."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any

from botorch_risk_bench.campaigns import schema

_TIMEOUT_SECONDS = 60.0
_NAMED_DIFFERENCES = 4  # of two identities, in an error
_NAMED_GAPS = 4
_COUNTED_GAPS = 1_000_000
_TYPES = (str, str, str, int, int)
Key = tuple[Any, ...]  # experiment, strategy, setting, seed, round

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


class StoreError(ValueError):
    r"""The file is not the expected store, or another process holds it."""


class NoResultsError(StoreError):
    r"""The store is intact, but these results have not been played or cannot be known."""


def checksum(*values: bytes | str | float | int | None) -> bytes:
    r"""BLAKE2b of the types, lengths and bytes of the columns of a row, 16 bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        digest.update(f"{type(value).__name__} {len(data)} ".encode())
        digest.update(data)
    return digest.digest()


def open_database(path: Path, identity: Mapping[str, Any] | None) -> sqlite3.Connection:
    r"""Open a store, or create it if an identity is given and the file is missing or empty.

    An identity means that the caller will write; a store of another identity is refused.
    """
    if identity is None and not path.exists():
        raise StoreError(f"File not found: {path}")
    uri = f"{path.absolute().as_uri()}?mode={'rw' if identity is None else 'rwc'}"
    with clear_errors(path):
        connection = connect(uri)
        try:
            if identity is not None and _is_empty(connection):
                with transaction(connection, path):
                    if _is_empty(connection):  # unless another process has just created it
                        create(connection, identity)
            _check_file(connection, path)
            if identity is not None:
                check_identity(read_identity(connection, path), identity, path)
        except BaseException:
            connection.close()
            raise
    return connection


def has_begun(path: Path) -> bool:
    r"""Whether a file has anything in it; a process may have ended while it created the store."""
    if not path.exists():
        return False
    with clear_errors(path), closing(connect(f"{path.absolute().as_uri()}?mode=rw")) as connection:
        return not _is_empty(connection)


def connect(uri: str) -> sqlite3.Connection:
    r"""Connect without implicit transactions, with `checksum` as an SQL function."""
    connection = sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_SECONDS, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")  # a file may have any
    connection.create_function("checksum", -1, checksum, deterministic=True)
    return connection


def create(connection: sqlite3.Connection, identity: Mapping[str, Any]) -> None:
    r"""Create the tables of a store in an empty database."""
    for statement in schema.TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")
    write_identity(connection, identity)


def read_identity(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    r"""Read the identity that a store was created with."""
    rows = connection.execute("SELECT key, value, checksum FROM identity ORDER BY key").fetchall()
    expected = checksum(*(cell for row in rows for cell in row[:2]))
    if not rows or any(stored != expected for _, _, stored in rows):
        raise StoreError(
            f"Expected the identity of {path} to be intact. Got {len(rows)} values that do not "
            "fit their checksum."
        )
    try:
        return {key: json.loads(value) for key, value, _ in rows}
    except (ValueError, RecursionError) as error:
        raise StoreError(f"Expected the identity of {path} as JSON. Got {error}.") from error


def write_identity(connection: sqlite3.Connection, identity: Mapping[str, Any]) -> None:
    r"""Writes the identity of a store, instead of one that it has."""
    connection.execute("DELETE FROM identity")
    rows = sorted((key, json.dumps(value)) for key, value in identity.items())
    whole = checksum(*(cell for row in rows for cell in row))
    connection.executemany("INSERT INTO identity VALUES (?, ?, ?)", [(*row, whole) for row in rows])


def check_identity(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    r"""Raise a StoreError that names the differences between two identities."""
    stored = dict(_leaves(without_optima(found)))
    expected = dict(_leaves(without_optima(json.loads(json.dumps(dict(wanted))))))
    differing = [
        f"{key}={_abridged(stored.get(key))} there, {_abridged(expected.get(key))} here"
        for key in stored | expected
        if stored.get(key) != expected.get(key)
    ]
    if differing:
        named = differing[:_NAMED_DIFFERENCES]
        named += [f"{more} more"] if (more := len(differing) - len(named)) else []
        raise StoreError(f"Expected {path} to be of this experiment. Got {'; '.join(named)}.")


def without_optima(identity: Any, depth: int = 0) -> Any:
    r"""What distinguishes a campaign: an optimum may become known, or be corrected, later."""
    if not isinstance(identity, Mapping):
        return identity
    return {
        key: without_optima(value, depth + 1)
        for key, value in identity.items()
        if (depth, key) != (3, "optimal_value")  # experiments, name, setting, optimal_value
    }


def check_row(what: str, path: Path, values: Sequence[Any], stored: Any) -> None:
    r"""Raise a StoreError that names the row unless its values fit their checksum."""
    if stored != checksum(*values):
        raise StoreError(
            f"Expected {what} in {path} to be intact. Got values that do not fit their checksum."
        )


def check_no_gaps(table: str, begun: list[Key], found: Iterable[Key], path: Path) -> None:
    r"""Raise a StoreError that names missing rows, and rows that no block has played."""
    missing: list[str] = []
    extra: list[str] = []
    for key, is_missing in gaps(table, begun, (_typed(key, path) for key in found)):
        (missing if is_missing else extra).append(schema.NAMED[table].format(*key))
        if len(missing) > _COUNTED_GAPS:  # as many as a damaged number may ask for
            break
    if missing:
        raise StoreError(f"Expected {_first(missing)} in {path}. Got none.")
    if extra:
        raise StoreError(f"Expected a block that has played {_first(extra)} in {path}. Got none.")


def gaps(table: str, begun: list[Key], found: Iterable[Key]) -> Iterator[tuple[Key, bool]]:
    r"""The keys of rows that are missing, with True, and of rows that no block has played.

    Args:
        begun: The blocks that have begun: experiment, strategy, setting, first seed, number of
            seeds, last round.
        found: The keys that are there. Both are in the order of the keys.
    """
    expected = ((key, True) for key in _keys(table, begun))
    there = ((key, False) for key in found)
    for key, sides in groupby(merge(expected, there), key=lambda each: each[0]):
        if len(found_in := [is_expected for _, is_expected in sides]) == 1:
            yield key, found_in[0]


def _first(names: list[str]) -> str:
    more = len(names) - _NAMED_GAPS
    return "; ".join([*names[:_NAMED_GAPS], *([f"{more} more"] if more > 0 else [])])


def _keys(table: str, begun: list[Key]) -> Iterator[Key]:
    for *series, first, num_seeds, last in begun:
        for seed in range(first, first + (num_seeds if table == "rounds" else 1)):
            for index in range(last + 1):
                yield (*series, seed, index)


def is_key(key: Key) -> bool:
    r"""Whether the cells of a key have the types of its columns."""
    return tuple(map(type, key)) == _TYPES


def _typed(key: Key, path: Path) -> Key:
    if not is_key(key):
        raise StoreError(f"Expected {path} to be an intact store. Got a row with the key {key}.")
    return key


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
    r"""Read one consistent state while other processes write."""
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
    r"""Turn errors of SQLite into `StoreError`, with the file and the likely cause."""
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


def application_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return tables == 0 and application_of(connection) == 0


def _check_file(connection: sqlite3.Connection, path: Path) -> None:
    if application_of(connection) != schema.APPLICATION_ID:
        raise StoreError(f"Expected {path} to be the store of a campaign. Got another file.")
    if (version := schema.version_of(connection)) != schema.VERSION:
        raise StoreError(
            f"Expected schema {schema.VERSION} of stores, with checksums, in {path}. Got schema "
            f"{version}, which this version cannot read; run the experiment again into a new file."
        )
    if (foreign := schema.foreign_part(connection)) is not None:
        raise StoreError(f"Expected the tables of a store alone in {path}. Got {foreign}.")
    found = connection.execute("PRAGMA quick_check").fetchone()[0]
    if found != "ok":
        raise StoreError(f"Expected {path} to be intact. Got {found!r}.")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    r"""Flatten nested mappings, and lists of mappings, to dotted names."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{name}[{index}]")
    else:
        yield name, value


def _abridged(value: Any) -> str:
    r"""Show both ends of a long value, since lists of seeds mostly differ in the last."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:28]}...{text[-28:]}"
