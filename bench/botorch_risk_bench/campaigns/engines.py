r"""Run the blocks of a campaign: in this process, on its cores, on Dask, through SLURM."""

import ipaddress
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from botorch_risk.arguments import check_counts, check_positive
from botorch_risk.extras import require_extra

_PARENT_SECONDS = 0.2  # between two looks at whether the parent is there
_watched = threading.Event()


class Engine(Protocol):
    r"""Opens executors; a broken one is replaced by a new one."""

    @property
    def num_workers(self) -> int:
        r"""The number of concurrent tasks."""
        ...

    def open(self) -> Executor: ...

    def is_alive(self, executor: Executor) -> bool:
        r"""Whether an executor still accepts tasks, as far as is known."""
        ...


@dataclass(frozen=True)
class Serial:
    r"""This process, one task at a time, for a debugger."""

    num_workers: int = 1

    def open(self) -> Executor:
        return _SerialExecutor()

    def is_alive(self, executor: Executor) -> bool:
        return True


@dataclass(frozen=True)
class Processes:
    r"""A pool of processes on this machine, spawned, so that no state is inherited.

    A script must run its campaign under `if __name__ == "__main__":`.

    Example:
        >>> Processes(0)
        Traceback (most recent call last):
        ValueError: Expected `num_workers` to be at least 1. Got 0.
    """

    num_workers: int = 2

    def __post_init__(self) -> None:
        check_counts(num_workers=self.num_workers)

    def open(self) -> Executor:
        return ProcessPoolExecutor(
            self.num_workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin_worker,
            initargs=(os.getpid(),),
        )

    def is_alive(self, executor: Executor) -> bool:
        return True


@dataclass(frozen=True)
class Dask:
    r"""Workers of Dask distributed.

    Anyone who reaches a Dask scheduler can run code on its workers. So a cluster of this machine
    listens on the loopback interface only, and a remote one must use TLS.

    Args:
        num_workers: The number of processes of a cluster on this machine; of one elsewhere, the
            number of tasks in work at a time.
        address: The scheduler of a running cluster, `tls://host:port`, or on this machine
            `tcp://127.0.0.1:port`; certificates as in Dask's configuration. If omitted, a
            cluster is started for the campaign.

    Example:
        >>> Dask(address="tcp://10.0.0.7:8786")
        Traceback (most recent call last):
        ValueError: Expected a TLS address (tls://host:port) or one on this machine. Got ...
    """

    num_workers: int = 2
    address: str | None = None

    def __post_init__(self) -> None:
        check_counts(num_workers=self.num_workers)
        if self.address is not None and not _is_safe(self.address):
            raise ValueError(
                "Expected a TLS address (tls://host:port) or one on this machine. Got "
                f"{self.address!r}, where anyone who can connect could run code."
            )

    def open(self) -> Executor:
        r"""Open an executor on a client of the cluster."""
        return _DaskExecutor(self.num_workers, self.address)

    def is_alive(self, executor: Executor) -> bool:
        return isinstance(executor, _DaskExecutor) and executor.is_alive


@dataclass(frozen=True)
class Submitit:
    r"""Jobs of SLURM, or of this machine, through submitit.

    Args:
        folder: Where jobs and their results are, on a file system that all nodes share.
        cluster: "slurm", or "local" for processes of this machine.
        parameters: Parameters of the jobs, such as
            `{"slurm_partition": "cpu", "timeout_min": 240}`.
        poll_seconds: How often to look for results.

    Example:
        >>> Submitit(Path("jobs"), 40, parameters={"slurm_partition": "cpu"}).cluster
        'slurm'
    """

    folder: Path
    num_workers: int = 2
    cluster: str = "slurm"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    poll_seconds: float = 1.0

    def __post_init__(self) -> None:
        check_counts(num_workers=self.num_workers)
        check_positive(poll_seconds=self.poll_seconds)

    def open(self) -> Executor:
        submitit = require_extra("submitit", "botorch-risk-bench[slurm]")
        inner = submitit.AutoExecutor(folder=str(self.folder), cluster=self.cluster)
        inner.update_parameters(**self.parameters)
        return _JobExecutor(inner.submit, self.poll_seconds)

    def is_alive(self, executor: Executor) -> bool:
        return True


class _SerialExecutor(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            future.set_exception(error)
        return future


class _DaskExecutor(Executor):
    r"""Dask's executor with its client, and the cluster if we started it."""

    def __init__(self, num_workers: int, address: str | None) -> None:
        distributed = require_extra("distributed", "botorch-risk-bench[dask]")
        self._cluster = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=num_workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                # Without a port it takes 8787, and warns where another cluster has it.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                silence_logs=50,
            )
        self.client = distributed.Client(address or self._cluster, timeout=10, set_as_default=False)
        self._inner = self.client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self._inner.submit(fn, *args, **kwargs)
        return future

    @property
    def is_alive(self) -> bool:
        # A worker that dies is started again by its nanny; a nanny that dies is not.
        has_workers = self._cluster is None or bool(self._cluster.scheduler.workers)
        return bool(self.client.status == "running" and has_workers)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        # A scheduler that has died leaves nothing to say goodbye to.
        with suppress(Exception):
            self.client.close(timeout=5)
        with suppress(Exception):
            if self._cluster is not None:
                self._cluster.close(timeout=10)


class _JobExecutor(Executor):
    r"""Wraps jobs, whose results are files, as futures."""

    def __init__(self, submit: Callable[..., Any], poll_seconds: float) -> None:
        self._submit, self._poll_seconds = submit, poll_seconds
        self._open: dict[Future[Any], Any] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="watch jobs", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        job = self._submit(fn, *args, **kwargs)
        with self._lock:
            self._open[future] = job
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ended.set()
        if cancel_futures:
            for job in self._open.values():
                with suppress(Exception):
                    job.cancel(check=False)

    def _watch(self) -> None:
        while not self._ended.wait(self._poll_seconds):
            with self._lock:
                ended = {future: job for future, job in self._open.items() if _has_ended(job)}
                for future in ended:
                    del self._open[future]
            for future, job in ended.items():
                try:
                    future.set_result(job.result())
                except Exception as error:  # the job has died, which its result says in many ways
                    future.set_exception(error)


def _has_ended(job: Any) -> bool:
    r"""Whether a job has ended; one that does not answer has, and its result says why."""
    try:
        return bool(job.done())
    except Exception:
        return True


def _is_safe(address: str) -> bool:
    r"""Whether an address is on this machine or behind TLS."""
    parts = urlsplit(address)
    if parts.scheme == "tls":
        return True
    if parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _begin_worker(parent: int) -> None:
    r"""Let a worker end without a word on Ctrl-C, which the terminal sends to it as well."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with(parent)


def end_with(parent: int) -> None:
    r"""End this process as soon as its parent has ended in any way.

    A killed parent cannot end its workers, so they check for it five times a second. The end is
    immediate, like a kill: committed work stays, and the rest is done again. On Windows, where a
    process keeps the number of an ended parent, nothing happens.
    """
    if parent == os.getpid() or _watched.is_set():
        return
    _watched.set()
    threading.Thread(target=_watch, args=(parent,), name="watch parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)
