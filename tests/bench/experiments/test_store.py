from __future__ import annotations

import collections
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.experiments import ExperimentRun, ExperimentStore, StoreError
from botorch_risk_bench.experiments.serialization import encode
from botorch_risk_bench.experiments.summary import summary_markdown

from tests.bench.experiments.noisy_quadratic import QUADRATIC
from tests.bench.experiments.stores import IDENTITY, change, complete, fill, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "results.sqlite")


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


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    r"""The store of a real run."""
    path = tmp_path_factory.mktemp("store") / "campaign.sqlite"
    ExperimentRun(QUADRATIC, path, range(2), ["averse"], num_rounds=8).run(progress=False)
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


def test_a_reader_beside_a_writer_sees_whole_rounds(path: Path) -> None:
    r"""The pending round may be completed between the two looks that a reader takes."""
    with ExperimentStore(path, IDENTITY) as writer, ExperimentStore(path) as reader:
        record(writer, 3)
        assert [row.index for row in reader.rounds("random")] == [0, 1, 2, 3]
        complete(writer, 3)
        record(writer, 4)
        assert [row.index for row in reader.rounds("random", first=3)] == [3, 4]
        assert reader.rounds("random", first=5) == []
