r"""Files that are no store, or another experiment's, are refused and left alone."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import CampaignStore, StoreError, database
from botorch_risk_bench.campaigns.database import (
    check_no_gaps,
    clear_errors,
    open_database,
    read_identity,
    transaction,
    write_identity,
)
from botorch_risk_bench.campaigns.whole_files import replacing

from bench.tests.played import change

IDENTITY: dict[str, Any] = {"experiment": "sine", "seeds": [0, 1], "optimal_value": 0.1 + 0.2}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    open_database(path, IDENTITY).close()
    return path


def test_a_locked_file_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_TIMEOUT_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(
        StoreError, match=r"results.sqlite to be free of other processes' locks. .* locked"
    ):
        open_database(path, IDENTITY)
    holder.execute("ROLLBACK")
    holder.close()
    open_database(path, IDENTITY).close()


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    with closing(open_database(path, IDENTITY)) as connection:
        assert read_identity(connection, path) == IDENTITY


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.commit()
    connection.close()


def truncated(path: Path) -> None:
    open_database(path, {**IDENTITY, "long": list(range(9999))}).close()
    path.write_bytes(path.read_bytes()[:-8192])


def overwritten(path: Path) -> None:
    truncated(path)
    data = bytearray(path.read_bytes())
    data[4096:6000] = bytes(1904)
    path.write_bytes(data)


def newer(path: Path) -> None:
    open_database(path, IDENTITY).close()
    change(path, "PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("x,y\n1,2\n" * 99), "intact store. Got file is not a data"),
        (foreign_database, "to be the store of a campaign. Got another file"),
        (truncated, "malformed|intact"),
        (overwritten, "malformed|intact"),
        (newer, "Expected schema 3 .* Got schema 99.* run the experiment again"),
    ],
    ids=["text", "foreign", "truncated", "overwritten", "newer"],
)
def test_other_files_are_refused_and_left_alone(spoil: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    spoil(path)
    before = path.read_bytes()
    for identity in (IDENTITY, None):
        with pytest.raises(StoreError, match=message):
            open_database(path, identity)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_no_flipped_bit_of_the_schema_is_an_error_of_another_kind(path: Path) -> None:
    data = path.read_bytes()
    first = data.index(b"CREATE TABLE")
    last = data.rindex(b"CREATE TABLE", 0, 4096) + 20
    seen = set()
    for position in range(first, last, 7):
        flipped = bytearray(data)
        flipped[position] ^= 0x80  # text that is not UTF-8
        path.write_bytes(flipped)
        try:
            with CampaignStore(path) as store:
                list(store.select("SELECT * FROM blocks, rounds, timings, failures, reports"))
        except StoreError as error:
            seen.add(str(error).partition(". Got ")[0])
    assert seen == {f"Expected {path} to be an intact store"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, "a.sqlite to be free of other processes' locks"),
        (sqlite3.SQLITE_FULL, "room for a.sqlite on its disk"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "a.sqlite to be readable and writable"),
        (sqlite3.SQLITE_IOERR_WRITE, "a.sqlite to be readable and writable"),
        (sqlite3.SQLITE_CORRUPT, "a.sqlite to be an intact store"),
        (sqlite3.SQLITE_ERROR, "a.sqlite to be an intact store"),
    ],
)
def test_errors_of_sqlite_are_named_by_their_cause(code: int, expected: str) -> None:
    error = sqlite3.OperationalError("why")
    error.sqlite_errorcode = code
    with (
        pytest.raises(StoreError, match=rf"^Expected {expected}\. Got why\.$"),
        clear_errors(Path("a.sqlite")),
    ):
        raise error


def test_a_text_that_python_cannot_read_is_of_no_intact_store(path: Path) -> None:
    change(path, "UPDATE identity SET value = CAST(x'ff' AS TEXT)")
    with (
        CampaignStore(path) as store,
        pytest.raises(StoreError, match=r"intact store\. Got Could not decode to UTF-8"),
    ):
        store.identity  # noqa: B018


def test_a_file_without_rights_is_named_as_such(path: Path) -> None:
    with closing(open_database(path, IDENTITY)) as connection:
        connection.execute("PRAGMA query_only = 1")
        denied = pytest.raises(StoreError, match=r"readable and writable\. Got attempt to write")
        with denied, transaction(connection, path):
            write_identity(connection, {})


@pytest.mark.parametrize(
    "other", [{"seeds": [0, 1, 2]}, {"experiment": "branin"}, {"extra": 1}], ids=str
)
def test_another_experiment_is_refused_by_name(other: dict[str, Any], path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"{next(iter(other))}=.* there, .* here"):
        open_database(path, IDENTITY | other)
    assert path.read_bytes() == before


def test_long_values_are_told_apart_by_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    open_database(path, {"seeds": list(range(200))}).close()
    with pytest.raises(StoreError, match=r"\.\.\..* 198, 199\] there, .* 98, 99\] here"):
        open_database(path, {"seeds": list(range(100))})


def test_of_many_differences_the_first_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    open_database(path, {f"setting {k}": k for k in range(9)}).close()
    with pytest.raises(StoreError) as error:
        open_database(path, {f"setting {k}": -1 for k in range(9)})
    assert str(error.value).endswith("setting 3=3 there, -1 here; 5 more.")


def test_a_missing_file_is_not_created_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="File not found: "):
        open_database(tmp_path / "none.sqlite", None)
    with pytest.raises(StoreError, match="unable to open"):
        open_database(tmp_path / "no" / "folder.sqlite", IDENTITY)
    assert not list(tmp_path.iterdir())


HERE = Path("a.sqlite")
ONE = ("sine", "RAHBO", "default")
BEGUN = [(*ONE, 0, 2, 1), (*ONE, 5, 1, 0)]  # seeds 0 and 1 up to round 1, seed 5 up to round 0
ROUNDS = [(*ONE, 0, 0), (*ONE, 0, 1), (*ONE, 1, 0), (*ONE, 1, 1), (*ONE, 5, 0)]
TIMINGS = [(*ONE, 0, 0), (*ONE, 0, 1), (*ONE, 5, 0)]


def test_whole_tables_pass() -> None:
    check_no_gaps("rounds", BEGUN, ROUNDS, HERE)
    check_no_gaps("timings", BEGUN, TIMINGS, HERE)
    check_no_gaps("rounds", [], [], HERE)


@pytest.mark.parametrize(("table", "whole"), [("rounds", ROUNDS), ("timings", TIMINGS)])
def test_each_row_that_is_missing_or_of_no_block_is_named(
    table: str, whole: list[tuple[str | int, ...]]
) -> None:
    for position, (*_, seed, index) in enumerate(whole):
        name = f"round {index} of sine, RAHBO, default, seeds? (from )?{seed}"
        with pytest.raises(StoreError, match=rf"Expected (the times of )?{name} in a\.sqlite"):
            check_no_gaps(table, BEGUN, whole[:position] + whole[position + 1 :], HERE)
    for extra, name in (((*ONE, 5, 1), "seeds? (from )?5"), ((*ONE, 9, 1), "seeds? (from )?9")):
        with pytest.raises(StoreError, match=rf"block that has played .*{name} in a\.sqlite"):
            check_no_gaps(table, BEGUN, [*whole, extra], HERE)


def test_of_many_gaps_the_first_are_named() -> None:
    with pytest.raises(StoreError) as error:
        check_no_gaps("rounds", [(*ONE, 0, 1, 8)], [], HERE)
    assert str(error.value).count("round ") == 4
    assert str(error.value).endswith("seed 0; 5 more in a.sqlite. Got none.")


@pytest.mark.parametrize("key", [(*ONE, "0", 0), (*ONE, 0, None), (b"sine", *ONE[1:], 0, 0)])
def test_a_key_of_another_type_is_no_key(key: tuple[object, ...]) -> None:
    with pytest.raises(StoreError, match=r"an intact store\. Got a row with the key"):
        check_no_gaps("rounds", BEGUN, [key, *ROUNDS], HERE)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in ("first", "second"):
        with replacing(path) as written:
            written.write_text(text)
            assert written.parent == tmp_path  # on the same disk
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_an_error_leaves_the_file_as_it_was(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("of last week")
    with pytest.raises(error, match="in the middle"), replacing(path) as written:
        written.write_text("half")
        raise error("in the middle")
    assert path.read_text() == "of last week"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "a.csv", tmp_path / "link.csv"
    path.touch(mode=0o640)
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as written:
        written.write_text("new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with replacing(tmp_path / "a.csv") as written:
        written.write_text("new")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="pipes with a name")
def test_what_is_no_file_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replacing(pipe) as written:
            written.write_text("shown")
        assert os.read(reader, 10) == b"shown"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
