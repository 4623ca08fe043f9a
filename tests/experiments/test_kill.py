r"""Real processes that are killed at random moments, or run into each other."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from botorch_risk.experiments import Campaign
from tests.experiments.noisy_quadratic import SLOW
from tests.experiments.table import table

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0


def start(path: Path, num_rounds: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.experiments", "run", "slow", "--out", str(path)]
    command += ["--replicates", "3", "--seed", "5", "--rounds", str(num_rounds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def count_rounds(path: Path) -> int:
    if not path.exists():
        return 0
    connection = sqlite3.connect(path, timeout=10)
    try:
        return connection.execute("SELECT count(*) FROM rounds").fetchone()[0]
    except sqlite3.OperationalError:  # no table yet
        return 0
    finally:
        connection.close()


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
    assert process.wait() == -signal.SIGKILL
    return count_rounds(path) > before


def uninterrupted(path: Path, num_rounds: int) -> dict[str, list[dict[str, Any]]]:
    Campaign(SLOW, path, seeds=[5, 6, 7], num_rounds=num_rounds).run(progress=False)
    assert count_rounds(path) == num_rounds + 1
    return table(path)


def check_kills(folder: Path, num_kills: int, num_early: int, num_rounds: int) -> int:
    stream = random.Random(0)
    early = [True] * num_early + [False] * (num_kills - num_early)
    stream.shuffle(early)
    killed, whole = folder / "killed.sqlite", folder / "whole.sqlite"
    after_commit = sum(kill_once(killed, num_rounds, flag, stream) for flag in early)
    assert count_rounds(killed) <= num_rounds
    assert start(killed, num_rounds).wait() == 0
    assert table(killed) == uninterrupted(whole, num_rounds)
    return after_commit


def test_two_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=2, num_early=0, num_rounds=30) == 2


def test_two_processes_on_one_file_corrupt_nothing(tmp_path: Path) -> None:
    shared, whole = tmp_path / "shared.sqlite", tmp_path / "whole.sqlite"
    processes = [start(shared, num_rounds=60) for _ in range(2)]
    codes = {process.wait() for process in processes}
    assert 0 in codes  # who comes second ends with an error, the other goes on
    assert codes <= {0, 2}
    assert table(shared) == uninterrupted(whole, num_rounds=60)


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=30, num_early=8, num_rounds=800) >= 20
