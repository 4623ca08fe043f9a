r"""Each engine gives the same table, to the last bit; real processes, jobs and clusters."""

import os
import socket
import time
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import Dask, Options, Processes, Serial, Submitit, run_campaign
from botorch_risk_bench.campaigns.engines import Engine, _JobExecutor

from bench.tests.campaigns.small import QUIET, run_here, small
from bench.tests.played import bytes_of
from botorch_risk.extras import MissingExtraError


def engine(name: str, folder: Path) -> Engine:
    if name == "jobs":
        return Submitit(folder / "jobs", 2, "local", {"timeout_min": 5}, poll_seconds=0.05)
    return Dask(2) if name == "dask" else Processes(2)


@pytest.mark.parametrize(
    "name",
    [
        "processes",
        pytest.param("dask", marks=pytest.mark.slow),
        pytest.param("jobs", marks=pytest.mark.slow),
    ],
)
def test_every_engine_gives_the_serial_table(name: str, tmp_path: Path) -> None:
    pytest.importorskip({"dask": "distributed", "jobs": "submitit"}.get(name, "torch"))
    campaign = small(strategies="averse", settings={"default": {}})
    run_here(campaign, tmp_path / "serial.sqlite")
    options = Options(journals=tmp_path / "journals", progress=False)
    assert run_campaign(campaign, tmp_path / "a.sqlite", engine(name, tmp_path), options) == 0
    assert bytes_of(tmp_path / "a.sqlite") == bytes_of(tmp_path / "serial.sqlite")
    assert [path for path in (tmp_path / "journals").rglob("*") if path.is_file()] == []


def test_a_cluster_without_nannies_is_dead() -> None:
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("distributed")
    engine = Dask(1)
    with socket.socket() as other:
        with suppress(OSError):  # another cluster has Dask's usual port, as may be the case already
            other.bind(("127.0.0.1", 8787))
            other.listen()
        executor = engine.open()
    try:
        nanny = executor.submit(os.getppid).result(timeout=60)
        assert engine.is_alive(executor)
        if nanny != os.getpid():  # a process of its own in other versions
            psutil.Process(nanny).kill()
        executor._cluster.scale(0)  # type: ignore[attr-defined]
        deadline = time.monotonic() + 60
        while engine.is_alive(executor) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not engine.is_alive(executor)
    finally:
        executor.shutdown()


@pytest.mark.slow
def test_the_pool_ends_with_this_process_and_is_another_one() -> None:
    executor = Processes(1).open()
    try:
        assert executor.submit(os.getpid).result() != os.getpid()
        assert executor.submit(os.getppid).result() == os.getpid()
    finally:
        executor.shutdown()


def test_serial_keeps_errors_for_the_future() -> None:
    executor = Serial().open()
    assert executor.submit(max, 3, 4).result() == 4
    assert isinstance(executor.submit(int, "x").exception(), ValueError)


class Job:
    r"""A job that ends after two looks at it."""

    def __init__(self, value: Any) -> None:
        self.value, self.looks, self.cancelled = value, 0, False

    def done(self) -> bool:
        self.looks += 1
        if isinstance(self.value, LookupError):
            raise self.value  # the scheduler of the jobs does not answer
        return self.looks > 2

    def result(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def cancel(self, check: bool = True) -> None:
        self.cancelled = True


def test_jobs_become_futures() -> None:
    jobs = [Job(3), Job(RuntimeError("the node is gone")), Job(4), Job(LookupError("no job"))]
    executor: Executor = _JobExecutor(lambda fn, *args: jobs[args[0]], 0.001)
    first, second = executor.submit(max, 0), executor.submit(max, 1)
    assert first.result(timeout=10) == 3
    with pytest.raises(RuntimeError, match="the node is gone"):
        second.result(timeout=10)
    with pytest.raises(LookupError, match="no job"):
        executor.submit(max, 3).result(timeout=10)
    executor.shutdown()
    time.sleep(0.02)
    third: Future[Any] = executor.submit(max, 2)
    executor.shutdown(cancel_futures=True)
    assert jobs[2].cancelled and not third.done()


@pytest.mark.parametrize(
    ("address", "safe"),
    [
        ("tcp://127.0.0.1:8786", True),
        ("tcp://localhost:8786", True),
        ("tcp://[::1]:8786", True),
        ("tls://cluster.example.org:8786", True),
        ("tcp://10.0.0.7:8786", False),
        ("tcp://cluster.example.org:8786", False),
        ("cluster:8786", False),
    ],
)
def test_anyone_who_could_connect_could_run_code(address: str, safe: bool) -> None:
    if safe:
        assert Dask(address=address).address == address
    else:
        with pytest.raises(ValueError, match="a TLS address"):
            Dask(address=address)


def test_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for build in (Processes, Dask, lambda n: Submitit(tmp_path, n)):
        with pytest.raises(ValueError, match="`num_workers` to be at least 1"):
            build(0)
    import sys

    for module, extra, built in (
        ("distributed", "dask", Dask()),
        ("submitit", "slurm", Submitit(tmp_path)),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match=rf"botorch-risk-bench\[{extra}\]"):
            built.open()


def test_options_change_no_result(tmp_path: Path) -> None:
    campaign = small(strategies="averse", settings={"default": {}})
    run_here(campaign, tmp_path / "a.sqlite", report_seconds=0.0)
    run_campaign(campaign, tmp_path / "b.sqlite", Serial(), QUIET)
    assert bytes_of(tmp_path / "a.sqlite") == bytes_of(tmp_path / "b.sqlite")
