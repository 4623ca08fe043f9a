r"""Real processes that are killed at random moments, or run into each other."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from botorch_risk.experiments import Campaign, ExperimentDefinition
from tests.experiments.noisy_quadratic import SLOW, SLOW_PAIR
from tests.experiments.table import table

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 180.0


def start(path: Path, num_rounds: int, *arguments: str) -> subprocess.Popen[str]:
    name = "slow-pair" if arguments else "slow"
    command = [sys.executable, "-m", "tests.experiments", "run", name, "--out", str(path)]
    command += ["--replicates", "3", "--seed", "5", "--rounds", str(num_rounds), *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    r"""The code and the error output of a process that ends by itself or has been killed."""
    _, errors = process.communicate(timeout=5 * DEADLINE_SECONDS)
    return process.returncode, errors.replace("\r", "").strip()


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
    assert finish(process)[0] == -signal.SIGKILL
    return count_rounds(path) > before


def uninterrupted(
    path: Path, num_rounds: int, definition: ExperimentDefinition = SLOW
) -> dict[str, list[dict[str, Any]]]:
    Campaign(definition, path, seeds=[5, 6, 7], num_rounds=num_rounds).run(progress=False)
    assert count_rounds(path) == (num_rounds + 1) * len(definition.strategies)
    return table(path)


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


def until(condition: Callable[[], bool]) -> bool:
    r"""Waits for it, with a limit; whether it has come about."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def holders(path: Path) -> set[int]:
    r"""The processes that run strategies of a store, by its locks."""
    found = [lock.read_text().split() for lock in path.parent.glob(f"{path.name}-*.lock")]
    return {int(words[1]) for words in found if len(words) > 1}


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")  # a zombie has ended
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
    ids=["kill", "terminate"],
)
def test_workers_end_with_their_parent_and_a_resumed_run_goes_on_at_once(
    how: signal.Signals, tmp_path: Path
) -> None:
    path, whole = tmp_path / "killed.sqlite", tmp_path / "whole.sqlite"
    parent = start(path, 10_000, "--jobs", "2")
    assert until(lambda: len(holders(path)) == 2 and count_rounds(path) > 20)
    workers = holders(path)
    assert parent.pid not in workers
    parent.send_signal(how)
    assert parent.wait(DEADLINE_SECONDS) == -how
    parent.stderr.close()  # type: ignore[union-attr]
    done = count_rounds(path)
    # Immediately, while the workers may still be there; with more rounds than they can have done.
    resumed = start(path, done + 100, "--jobs", "2")
    assert until(lambda: not any(map(is_running, workers)))
    code, errors = finish(resumed)
    assert code == 0, errors
    assert count_rounds(path) == 2 * (done + 101)  # the orphans did not get further
    assert table(path) == uninterrupted(whole, done + 100, SLOW_PAIR)
    assert set(tmp_path.iterdir()) == {path, whole}


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=30, num_early=8, num_rounds=800) >= 20
