r"""One process at a time runs a strategy of a store."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from botorch_risk_bench.experiments import ExperimentStore, StoreError

from tests.bench.experiments.stores import fill

PID = os.getpid()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "results.sqlite")


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
