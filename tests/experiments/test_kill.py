r"""Real kills: SIGKILL at random moments, resume, compare with the uninterrupted run."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def check_kills(folder: Path, num_kills: int, num_early: int, num_rounds: int) -> int:
    stream = random.Random(0)
    early = [True] * num_early + [False] * (num_kills - num_early)
    stream.shuffle(early)
    killed, whole = folder / "killed.sqlite", folder / "whole.sqlite"
    after_commit = sum(kill_once(killed, num_rounds, flag, stream) for flag in early)
    assert count_rounds(killed) <= num_rounds
    for path in (killed, whole):
        assert start(path, num_rounds).wait() == 0
    assert count_rounds(whole) == num_rounds + 1
    assert table(killed) == table(whole)
    return after_commit


def test_two_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=2, num_early=0, num_rounds=30) == 2


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=30, num_early=8, num_rounds=800) >= 20
