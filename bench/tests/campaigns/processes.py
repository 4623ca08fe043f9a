r"""Real processes that run test experiments, and what can be seen of them from outside."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from botorch_risk_bench.experiments import ExperimentDefinition

from bench.tests.experiments.noisy_quadratic import SLOW
from bench.tests.played import bytes_of, play

ROOT = Path(__file__).parents[3]


DEADLINE_SECONDS = 180.0


def start(path: Path, num_rounds: int, *arguments: str) -> subprocess.Popen[str]:
    name = "slow-pair" if arguments else "slow"
    command = [sys.executable, "-m", "bench.tests.experiments", "run", name, "--out", str(path)]
    command += ["--seeds", "3", "--first-seed", "5", "--rounds", str(num_rounds), *arguments]
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
        return connection.execute("SELECT count(*) FROM timings").fetchone()[0]
    except sqlite3.OperationalError:  # no table yet
        return 0
    finally:
        connection.close()


def uninterrupted(
    path: Path, num_rounds: int, definition: ExperimentDefinition = SLOW
) -> list[tuple[Any, ...]]:
    play(definition, path, 3, num_rounds=num_rounds, first_seed=5)
    assert count_rounds(path) == (num_rounds + 1) * len(definition.strategies)
    return bytes_of(path)


def until(condition: Callable[[], bool]) -> bool:
    r"""Waits for it, with a limit; whether it has come about."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def workers_of(process: subprocess.Popen[str]) -> set[int]:
    r"""The processes that play blocks for another one, without Python's tracker of resources."""
    below = psutil.Process(process.pid).children()
    return {each.pid for each in below if "spawn_main" in " ".join(each.cmdline())}


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")  # a zombie has ended
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
