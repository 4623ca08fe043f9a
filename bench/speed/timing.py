r"""Interleaved timing: every way takes its turn in every round, and medians are compared."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version

import torch


def interleaved(
    ways: Mapping[str, Callable[[], object]],
    repeats: int,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
    warm: bool = True,
) -> dict[str, float]:
    r"""Median seconds of each way, after one call of each to `warm` up.

    With `clock=time.process_time` they are CPU seconds, for a machine that others use as well.
    """

    def timed(way: Callable[[], object]) -> float:
        start = clock()
        way()
        if device != "cpu":
            torch.cuda.synchronize()
        return clock() - start

    for way in ways.values() if warm else ():
        timed(way)
    seconds = [{name: timed(way) for name, way in ways.items()} for _ in range(repeats)]
    return {name: statistics.median(row[name] for row in seconds) for name in ways}


def environment(device: str) -> str:
    r"""Versions, machine and threads, for the head of a table."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "botorch", "gpytorch"))
    hardware = torch.cuda.get_device_name() if device != "cpu" else platform.machine()
    threads = f"{torch.get_num_threads()} CPU thread(s)"
    return f"Python {platform.python_version()}, {packages}; {hardware}, {threads}"
