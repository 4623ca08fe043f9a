r"""Real processes that are killed at random moments, or run into each other."""

import random
import signal
import time
from pathlib import Path

import pytest

from bench.tests.campaigns.processes import (
    DEADLINE_SECONDS,
    count_rounds,
    finish,
    is_running,
    start,
    uninterrupted,
    until,
    workers_of,
)
from bench.tests.experiments.noisy_quadratic import SLOW_PAIR
from bench.tests.played import bytes_of


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
    assert bytes_of(killed) == uninterrupted(whole, num_rounds)
    return after_commit


def test_a_kill(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=1, num_early=0, num_rounds=150) == 1


def test_two_processes_on_one_file_take_turns(tmp_path: Path) -> None:
    shared, whole = tmp_path / "shared.sqlite", tmp_path / "whole.sqlite"
    processes = [start(shared, num_rounds=20) for _ in range(2)]
    # Who comes second waits, up to ten seconds, and finds the rounds done.
    assert [finish(process)[0] for process in processes] == [0, 0]
    assert bytes_of(shared) == uninterrupted(whole, num_rounds=20)
    assert set(tmp_path.iterdir()) == {shared, whole}  # no lock is left


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    assert check_kills(tmp_path, num_kills=30, num_early=8, num_rounds=800) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "terminate"])
def test_workers_end_with_their_parent_and_a_resumed_run_goes_on_at_once(
    how: signal.Signals, tmp_path: Path
) -> None:
    path, whole = tmp_path / "killed.sqlite", tmp_path / "whole.sqlite"
    parent = start(path, 10_000, "--workers", "2")
    assert until(lambda: len(workers_of(parent)) == 2 and count_rounds(path) > 20)
    workers = workers_of(parent)
    parent.send_signal(how)
    assert parent.wait(DEADLINE_SECONDS) == -how
    parent.stderr.close()  # type: ignore[union-attr]
    done = count_rounds(path)
    # Immediately, while the workers may still be there; with more rounds than they can have done.
    resumed = start(path, done + 100, "--workers", "2")
    assert until(lambda: not any(map(is_running, workers)))
    code, errors = finish(resumed)
    assert code == 0, errors
    assert count_rounds(path) == 2 * (done + 101)  # the orphans did not get further
    assert bytes_of(path) == uninterrupted(whole, done + 100, SLOW_PAIR)
    assert set(tmp_path.iterdir()) == {path, whole}
