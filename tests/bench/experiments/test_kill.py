r"""Real processes that are killed at random moments, or run into each other."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.bench.experiments.processes import (
    DEADLINE_SECONDS,
    count_rounds,
    finish,
    start,
    uninterrupted,
)
from tests.bench.experiments.table import table


def kill_once(path: Path, num_rounds: int, early: bool, stream: random.Random) -> bool:
    r"""Kills a run at a random moment; whether that was after a commit of this very run."""
    before = count_rounds(path)
    process = start(path, num_rounds)
    if early:
        time.sleep(stream.uniform(0.0, 4.0))
    else:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while count_rounds(path) == before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(stream.uniform(0.0, 0.1))
    process.send_signal(signal.SIGKILL)
    assert finish(process)[0] == -signal.SIGKILL
    return count_rounds(path) > before


def check_kills(folder: Path, num_kills: int, num_early: int, num_rounds: int) -> int:
    stream = random.Random(0)
    early = [True] * num_early + [False] * (num_kills - num_early)
    stream.shuffle(early)
    killed, whole = folder / "killed.sqlite", folder / "whole.sqlite"
    after_commit = sum(kill_once(killed, num_rounds, flag, stream) for flag in early)
    assert count_rounds(killed) <= num_rounds
    assert finish(start(killed, num_rounds))[0] == 0
    assert table(killed) == uninterrupted(whole, num_rounds)
    return after_commit


def test_two_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=2, num_early=0, num_rounds=30) == 2


def test_two_processes_on_one_file_take_turns(tmp_path: Path) -> None:
    shared, whole = tmp_path / "shared.sqlite", tmp_path / "whole.sqlite"
    processes = [start(shared, num_rounds=60) for _ in range(2)]
    # Who comes second waits, and finds the rounds done.
    assert [finish(process)[0] for process in processes] == [0, 0]
    assert table(shared) == uninterrupted(whole, num_rounds=60)
    assert set(tmp_path.iterdir()) == {shared, whole}  # no lock is left


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=30, num_early=8, num_rounds=800) >= 20
