from __future__ import annotations

import collections
import os
import random
import shutil
import sqlite3
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from botorch_risk.experiments import Campaign, ExperimentStore, StoreError
from botorch_risk.experiments.serialization import encode
from botorch_risk.experiments.summary import summary_markdown
from tests.experiments.noisy_quadratic import QUADRATIC

PID = os.getpid()
IDENTITY: dict[str, Any] = {"experiment": "sine", "seeds": [0, 1], "optimal_value": 0.1 + 0.2}


def record(store: ExperimentStore, index: int, label: str = "random") -> None:
    X = torch.rand(2, 3, 1, dtype=torch.double)
    store.record_outcomes(label, index, X, X.expand(2, 3, 4), X.squeeze(-1), (0.1, 0.2))


def complete(store: ExperimentStore, index: int, state: dict[str, Any] | None = None) -> None:
    state = {"round": index} if state is None else state
    store.record_tell("random", index, torch.zeros(2, 1), torch.zeros(2), state, 0.3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    with ExperimentStore(path, IDENTITY) as store:
        store.add_strategy("random", "RandomSearch")
        for index in range(3):
            record(store, index)
            complete(store, index)
    return path


def test_reads_back_what_was_recorded(path: Path) -> None:
    with ExperimentStore(path) as store:
        assert store.identity == IDENTITY
        assert store.labels() == ["random"]
        assert store.progress("random") == (2, {"round": 2})
        assert store.progress("another") == (-1, None)
        records = store.rounds("random")
    assert [row.index for row in records] == [0, 1, 2]
    assert records[0].Y.shape == (2, 3, 4)
    assert records[0].seconds == (0.1, 0.2, 0.3)
    assert records[0].recommended_objective is not None


def test_a_pending_round_is_there_without_a_recommendation(path: Path) -> None:
    with ExperimentStore(path, IDENTITY) as store:
        record(store, 3)
    with ExperimentStore(path, IDENTITY) as store:
        assert store.progress("random")[0] == 2
        (pending,) = store.rounds("random", first=3)
        assert pending.recommendation is None
        assert pending.seconds == (0.1, 0.2, None)


def test_a_state_that_cannot_be_read_back_replaces_nothing(path: Path) -> None:
    with ExperimentStore(path, IDENTITY) as store:
        record(store, 3)
        with pytest.raises(StoreError, match="plain Python values"):
            complete(store, 3, state={"folder": Path("x")})
        assert store.progress("random") == (2, {"round": 2})
        complete(store, 3)


def test_two_writers_cannot_record_one_round_twice(path: Path) -> None:
    with ExperimentStore(path, IDENTITY) as one, ExperimentStore(path, IDENTITY) as two:
        record(one, 3)
        with pytest.raises(StoreError, match="no other process"):
            record(two, 3)
        complete(one, 3)
        with pytest.raises(StoreError, match="another process has completed"):
            complete(two, 3)


def test_one_at_a_time_runs_a_strategy(path: Path) -> None:
    holder = (
        rf"Expected no other process to run 'random' of .*results.sqlite\. Got process {PID} on"
    )
    with ExperimentStore(path) as one, ExperimentStore(path) as two:
        for _ in range(2):
            with one.claim("random"), two.claim("another, / and no name of a file"):
                with pytest.raises(StoreError, match=holder), two.claim("random", wait_seconds=0.1):
                    pass
                assert len(list(path.parent.iterdir())) == 3
            with two.claim("random", wait_seconds=0.0):
                pass
            assert list(path.parent.iterdir()) == [path]


def test_a_claim_waits_until_the_other_has_ended(path: Path) -> None:
    with ExperimentStore(path) as one, ExperimentStore(path) as two, ExitStack() as held:
        held.enter_context(one.claim("random"))
        threading.Timer(0.2, held.close).start()
        with two.claim("random", wait_seconds=60.0):
            assert len(list(path.parent.iterdir())) == 2
        assert list(path.parent.iterdir()) == [path]


def test_a_lock_that_a_killed_process_left_behind_is_free(path: Path) -> None:
    with ExperimentStore(path) as store:
        with store.claim("random"):
            (lock,) = path.parent.glob("*.lock")
        lock.write_text("random: process 1 on a machine that was switched off, of the past")
        with store.claim("random", wait_seconds=0.0):
            assert f"process {PID} on" in lock.read_text()
            assert "switched off" not in lock.read_text()


def test_a_locked_file_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botorch_risk.experiments.database._TIMEOUT_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"results.sqlite .* locked"):
        ExperimentStore(path, IDENTITY)
    holder.execute("ROLLBACK")
    holder.close()
    ExperimentStore(path, IDENTITY).close()


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    with ExperimentStore(path, IDENTITY) as store:
        assert store.identity == IDENTITY


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.commit()
    connection.close()


def truncated(path: Path) -> None:
    with ExperimentStore(path, IDENTITY) as store:
        store.add_strategy("random", "RandomSearch")
        for index in range(9):
            record(store, index)
    path.write_bytes(path.read_bytes()[:-8192])


def overwritten(path: Path) -> None:
    truncated(path)
    data = bytearray(path.read_bytes())
    data[4096:6000] = bytes(1904)
    path.write_bytes(data)


def newer(path: Path) -> None:
    ExperimentStore(path, IDENTITY).close()
    change(path, "PRAGMA user_version = 99")


def without_checksums(path: Path) -> None:
    r"""A store of the first schema."""
    ExperimentStore(path, IDENTITY).close()
    change(path, "PRAGMA user_version = 1")


def change(path: Path, statement: str, *values: Any) -> None:
    r"""Behind the back of the store."""
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement, values).rowcount != 0
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("x,y\n1,2\n" * 99), "intact store. Got file is not a data"),
        (foreign_database, "to be an experiment store. Got another file"),
        (truncated, "malformed|intact"),
        (overwritten, "malformed|intact"),
        (newer, "Expected schema 2 .* Got schema 99"),
        (without_checksums, "Expected schema 2 .* Got schema 1.* run the experiment again"),
    ],
    ids=["text", "foreign", "truncated", "overwritten", "newer", "without checksums"],
)
def test_other_files_are_refused_and_left_alone(spoil: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    spoil(path)
    before = path.read_bytes()
    for identity in (IDENTITY, None):
        with pytest.raises(StoreError, match=message):
            ExperimentStore(path, identity)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "change", [{"seeds": [0, 1, 2]}, {"experiment": "branin"}, {"extra": 1}], ids=str
)
def test_another_experiment_is_refused_by_name(change: dict[str, Any], path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"{next(iter(change))}=.* there, .* here"):
        ExperimentStore(path, IDENTITY | change)
    assert path.read_bytes() == before


def test_long_values_are_told_apart_by_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    ExperimentStore(path, {"seeds": list(range(200))}).close()
    with pytest.raises(StoreError, match=r"\.\.\..* 198, 199\] there, .* 98, 99\] here"):
        ExperimentStore(path, {"seeds": list(range(100))})


def test_another_kind_of_strategy_is_refused(path: Path) -> None:
    with (
        ExperimentStore(path, IDENTITY) as store,
        pytest.raises(StoreError, match=r"to be a RandomSearch\. Got kind='Thompson'"),
    ):
        store.add_strategy("random", "Thompson")


def test_a_missing_file_is_not_created_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="to exist"):
        ExperimentStore(tmp_path / "none.sqlite")
    with pytest.raises(StoreError, match="unable to open"):
        ExperimentStore(tmp_path / "no" / "folder.sqlite", IDENTITY)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    r"""The store of a real run."""
    path = tmp_path_factory.mktemp("store") / "campaign.sqlite"
    Campaign(QUADRATIC, path, range(2), ["averse"], num_rounds=8).run(progress=False)
    return path


def contents(path: Path) -> list[Any]:
    r"""All that the store says of its strategy."""
    with ExperimentStore(path) as store:
        rounds = [
            [each.index, each.seconds]
            + [None if t is None else t.numpy().tobytes() for t in tensors(each)]
            for each in store.rounds("averse")
        ]
        return [store.identity, store.labels(), repr(store.progress("averse")), *rounds]


def tensors(record: Any) -> list[torch.Tensor | None]:
    names = ("X", "Y", "objective", "recommendation", "recommended_objective")
    return [getattr(record, name) for name in names]


def flipped(value: Any, stream: random.Random) -> Any:
    r"""A stored value with one bit of it changed."""
    if isinstance(value, bytes):
        data = bytearray(value)
        data[stream.randrange(len(data))] ^= 1 << stream.randrange(8)
        return bytes(data)
    if isinstance(value, str):
        return flipped(value.encode(), stream).decode("latin-1")
    return value + 1 if isinstance(value, int) else value * (1 + 2.0 ** -stream.randrange(52))


COLUMNS = (
    [("rounds", name) for name in ("X", "Y", "objective", "recommendation")]
    + [("rounds", name) for name in ("recommended_objective", "ask_seconds", "tell_seconds")]
    + [("rounds", "checksum"), ("strategies", "state"), ("strategies", "kind")]
    + [("strategies", "round"), ("identity", "value"), ("identity", "checksum")]
)


def test_no_flipped_bit_of_300_makes_other_values(campaign: Path, tmp_path: Path) -> None:
    whole, stream = contents(campaign), random.Random(0)
    path, seen = tmp_path / "flipped.sqlite", collections.Counter[str]()
    for _ in range(300):
        table, column = stream.choice(COLUMNS)
        shutil.copy(campaign, path)
        connection = sqlite3.connect(path)
        rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        row, value = stream.choice(rows)
        connection.close()
        other = flipped(value, stream)
        change(path, f"UPDATE {table} SET {column} = ? WHERE rowid = ?", other, row)
        try:
            seen["same" if contents(path) == whole else "other values"] += 1
        except StoreError:
            seen["StoreError"] += 1
    assert seen == {"StoreError": 300}


@pytest.mark.parametrize(
    ("statement", "values", "message"),
    [
        ("DELETE FROM rounds WHERE round = 4", (), "round 4 of 'averse' .* Got round 5"),
        ("DELETE FROM rounds WHERE round = 8", (), "round 8 of 'averse' .* Got no such"),
        ("DELETE FROM rounds WHERE round = 0", (), "round 0 of 'averse' .* Got round 1"),
        ("UPDATE rounds SET Y = ? WHERE round = 2", (encode(torch.rand(7, 7)),), "round 2 of 'av"),
        ("UPDATE rounds SET round = 9 WHERE round = 8", (), "round 8 of 'averse' .* Got round 9"),
        ("UPDATE rounds SET recommendation = NULL WHERE round = 3", (), "round 3 of 'averse'"),
        ("UPDATE rounds SET ask_seconds = 'abc' WHERE round = 3", (), "round 3 of 'averse'"),
        ("UPDATE strategies SET state = NULL", (), "state of 'averse' in .* intact"),
        ("UPDATE strategies SET state = 'abc'", (), "state of 'averse' in .* intact"),
        ("DELETE FROM strategies", (), "Expected strategy 'averse' .* to be listed"),
        ("UPDATE identity SET value = '{bad' WHERE key = 'seeds'", (), "identity of .* intact"),
        ("DELETE FROM identity WHERE key = 'seeds'", (), "identity of .* intact"),
        ("DELETE FROM identity", (), "identity of .* intact"),
    ],
)
def test_what_was_tampered_with_is_named(
    statement: str, values: tuple[Any, ...], message: str, campaign: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tampered.sqlite"
    shutil.copy(campaign, path)
    change(path, statement, *values)
    with pytest.raises(StoreError, match=message):
        contents(path)
    with ExperimentStore(path) as store, pytest.raises(StoreError, match=message):
        summary_markdown(store)
        store.progress("averse")


def test_rounds_of_other_shapes_are_not_recorded(path: Path) -> None:
    X = torch.rand(2, 3, 1)
    with ExperimentStore(path, IDENTITY) as store:
        for bad in ((X, X[:, :2]), (X, X[0]), (X[0], X[0]), (X, X[..., 0])):
            with pytest.raises(StoreError, match=r"round 3 of 'random' .* `X: R x q x d`"):
                store.record_outcomes("random", 3, *bad, None, (0.1, 0.2))
        with pytest.raises(StoreError, match=r"round 3 of 'random' .* `X: R x q x d`"):
            store.record_outcomes("random", 3, X, X, X[0], (0.1, 0.2))
        assert store.rounds("random", first=3) == []


def test_a_reader_beside_a_writer_sees_whole_rounds(path: Path) -> None:
    r"""The pending round may be completed between the two looks that a reader takes."""
    with ExperimentStore(path, IDENTITY) as writer, ExperimentStore(path) as reader:
        record(writer, 3)
        assert [row.index for row in reader.rounds("random")] == [0, 1, 2, 3]
        complete(writer, 3)
        record(writer, 4)
        assert [row.index for row in reader.rounds("random", first=3)] == [3, 4]
        assert reader.rounds("random", first=5) == []
