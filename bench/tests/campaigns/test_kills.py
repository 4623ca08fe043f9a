r"""Campaigns of real processes that are killed at random moments give the serial table."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from botorch_risk_bench.campaigns import Campaign, Series

from bench.tests.campaigns.small import MODULE, run_here
from bench.tests.played import bytes_of

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 600.0  # without a new block; all of them take as long as the machine needs
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="kills processes")]


def campaign() -> Campaign:
    r"""200 tasks of about half a second."""
    series = Series("slow-pair", num_seeds=200, num_rounds=60)
    return Campaign("kills", [series], block_size=2, modules=(MODULE,))


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", *map(str, words)]


class Site:
    r"""The processes of a campaign; those that have ended are started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: dict[str, list[str]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.log = (folder / "log.txt").open("ab")

    def start(self, name: str, words: list[str]) -> None:
        self.commands[name] = words
        self.processes[name] = subprocess.Popen(
            words, cwd=ROOT, env=ENVIRONMENT, stdout=self.log, stderr=self.log
        )

    def mend(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is not None and name != "writer":
                self.start(name, self.commands[name])

    def children(self, name: str) -> list[psutil.Process]:
        r"""The processes below one of ours, without Python's own trackers of resources."""
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.processes[name].pid).children(recursive=True)
            return [each for each in below if not is_tracker(each)]
        return []

    def close(self) -> None:
        for name in self.processes:
            below = self.children(name)
            self.processes[name].kill()
            for process in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.processes[name].wait()
        self.log.close()


def is_tracker(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "resource_tracker" in " ".join(process.cmdline())
    return True


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    opened = Site(tmp_path)
    yield opened
    opened.close()


def run_with_kills(
    site: Site, engine: list[str], victims: Callable[[], dict[str, int]], num_kills: int
) -> list[str]:
    r"""Runs the campaign while victims are killed; what was killed, in order.

    The writer is started again as a user would, until it says that all is done.
    """
    stream, killed = random.Random(0), list[str]()
    description, out = site.folder / "kills.json", site.folder / "killed.sqlite"
    description.write_text(json.dumps(campaign().to_json()))
    words = ["botorch_risk_bench.cli", "campaign", "run", description, "--out", out]
    site.start("writer", command(*words, "--report-seconds", "0.2", *engine))
    size, end = -1, time.monotonic() + PATIENCE_SECONDS
    next_kill = time.monotonic() + 15.0  # imports take a while
    while time.monotonic() < end:
        if out.exists() and out.stat().st_size != size:
            size, end = out.stat().st_size, time.monotonic() + PATIENCE_SECONDS
        code = site.processes["writer"].poll()
        if code == 0:
            return killed
        if code is not None:
            assert code == -signal.SIGKILL, (site.folder / "log.txt").read_text()[-3000:]
            site.start("writer", site.commands["writer"])
        site.mend()
        if len(killed) < num_kills and time.monotonic() > next_kill:
            there = victims()
            kind = stream.choice(sorted({name.partition("-")[0] for name in there}))
            name = stream.choice(sorted(each for each in there if each.startswith(kind)))
            with contextlib.suppress(ProcessLookupError):
                os.kill(there[name], signal.SIGKILL)
                killed.append(name)
            next_kill = time.monotonic() + stream.uniform(2.0, 9.0)
        time.sleep(0.05)
    log = (site.folder / "log.txt").read_text()
    raise AssertionError(f"Expected new blocks. Got {killed}; {log}")


def check(site: Site, killed: list[str], num_kills: int, kinds: set[str]) -> None:
    run_here(campaign(), site.folder / "serial.sqlite")
    assert bytes_of(site.folder / "killed.sqlite") == bytes_of(site.folder / "serial.sqlite")
    assert len(killed) == num_kills
    assert {name.partition("-")[0] for name in killed} == kinds


def below_the_writer(site: Site) -> Callable[[], dict[str, int]]:
    def victims() -> dict[str, int]:
        found = {"writer": site.processes["writer"].pid}
        return found | {
            f"worker-{number}": process.pid
            for number, process in enumerate(site.children("writer"))
        }

    return victims


def test_a_pool_with_20_kills(site: Site) -> None:
    killed = run_with_kills(site, ["--engine", "processes"], below_the_writer(site), 20)
    check(site, killed, 20, {"worker", "writer"})


def test_jobs_with_20_kills(site: Site) -> None:
    r"""The jobs of a writer that is killed go on for a while, beside the jobs of the next."""
    engine = [
        "--engine",
        "jobs",
        "--job-folder",
        str(site.folder / "jobs"),
        "--report-seconds",
        "60",
    ]
    engine += ["--journals", str(site.folder / "journals"), "--parameter", "timeout_min=5"]
    killed = run_with_kills(site, engine, below_the_writer(site), 20)
    check(site, killed, 20, {"worker", "writer"})


def test_dask_with_20_kills(site: Site) -> None:
    pytest.importorskip("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port]
    site.start("scheduler", command(*scheduler, "--no-dashboard", "--no-show"))
    for number in range(2):
        worker = ["distributed.cli.dask_worker", address, "--nworkers", 1, "--nthreads", 1]
        local = site.folder / f"worker-{number}"
        words = [*worker, "--no-dashboard", "--local-directory", local, "--memory-limit", 0]
        site.start(f"nanny-{number}", command(*words))

    def victims() -> dict[str, int]:
        found = {name: process.pid for name, process in site.processes.items()}
        for number in range(2):
            for process in site.children(f"nanny-{number}"):
                found[f"worker-{number}"] = process.pid
        return found

    engine = ["--engine", "dask", "--address", address]
    killed = run_with_kills(site, engine, victims, 20)
    check(site, killed, 20, {"nanny", "scheduler", "worker", "writer"})
