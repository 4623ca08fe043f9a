r"""Rounds as rows of the store: what does not fit is not recorded, and not read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.experiments import ExperimentStore, StoreError
from botorch_risk_bench.experiments.records import COLUMNS, RoundRecord

from tests.bench.experiments.stores import IDENTITY, fill, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "results.sqlite")


def test_rounds_of_other_shapes_are_not_recorded(path: Path) -> None:
    X = torch.rand(2, 3, 1)
    with ExperimentStore(path, IDENTITY) as store:
        for bad in ((X, X[:, :2]), (X, X[0]), (X[0], X[0]), (X, X[..., 0])):
            with pytest.raises(StoreError, match=r"round 3 of 'random' .* `X: R x q x d`"):
                store.record_outcomes("random", 3, *bad, None, (0.1, 0.2))
        with pytest.raises(StoreError, match=r"round 3 of 'random' .* `X: R x q x d`"):
            store.record_outcomes("random", 3, X, X, X[0], (0.1, 0.2))
        assert store.rounds("random", first=3) == []


def test_a_row_is_read_as_it_was_recorded(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT {COLUMNS}, checksum FROM rounds").fetchall()
    records = [RoundRecord.read(row, path, completed=True) for row in rows]
    assert [each.index for each in records] == [0, 1, 2]
    assert records[1].X.shape == (2, 3, 1)
    assert records[1].seconds == (0.1, 0.2, 0.3)
    with pytest.raises(StoreError, match=r"round 2 of 'random' in .* intact"):
        RoundRecord.read((*rows[2][:-2], 0.4, rows[2][-1]), path, completed=True)


def test_a_round_that_the_strategy_has_gone_on_from_is_complete(path: Path) -> None:
    with ExperimentStore(path, IDENTITY) as store:
        record(store, 3)
    query = f"SELECT {COLUMNS}, checksum FROM rounds WHERE round = 3"
    with closing(sqlite3.connect(path)) as connection:
        (row,) = connection.execute(query).fetchall()
    assert RoundRecord.read(row, path, completed=False).recommendation is None
    with pytest.raises(StoreError, match=r"round 3 of 'random' in .* to be completed"):
        RoundRecord.read(row, path, completed=True)


def test_several_outcomes_and_sets_are_read_as_they_were_recorded(path: Path) -> None:
    X, Y = torch.rand(2, 3, 1), torch.rand(2, 3, 4, 2)
    recommendation = torch.rand(2, 5, 1).index_fill(1, torch.tensor(4), torch.nan)
    with ExperimentStore(path, IDENTITY) as store:
        store.record_outcomes("random", 3, X, Y, None, (0.1, 0.2))
        store.record_tell("random", 3, recommendation, torch.rand(2), {}, 0.3)
        (found,) = store.rounds("random", first=3)
    assert torch.equal(found.Y, Y)
    torch.testing.assert_close(found.recommendation, recommendation, equal_nan=True)
