r"""The work of a worker: play some rounds of a block and report them."""

import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_risk import __version__
from botorch_risk_bench.campaigns.description import Block, Setting, changed, experiments_of
from botorch_risk_bench.campaigns.journal import Journal, RoundRecord
from botorch_risk_bench.campaigns.loop import play_rounds
from botorch_risk_bench.campaigns.round_limit import RoundLimit
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.experiments.registry import get_experiment

_FOR_TENSORS = 0.9  # of a GPU's memory: CUDA itself takes about 0.9 GB for each process


@dataclass(frozen=True)
class Task:
    r"""A block, how far it is, and how to play it.

    Args:
        setting: What its setting changes.
        modules: Where experiments are that the package does not have.
        last_round: The last round that the store has, -1 before any.
        state: The strategy's state then, as JSON.
        campaign: What tells the campaign from others.
        versions: What the worker must have installed.
        report_seconds: When to report, at the end of a round.
        device: Where the strategy computes.
        sharing: How many workers share it.
        memory_limit: The most bytes of data of the process; None sets no limit.
        round_seconds: The most seconds of a round; None sets no limit.
        journals: A folder that outlives the worker; None keeps rounds in memory.
        own: Experiments of no module.
    """

    block: Block
    setting: Setting
    modules: tuple[str, ...]
    last_round: int
    state: str | None
    campaign: str
    versions: Mapping[str, str]
    report_seconds: float
    device: str = "cpu"
    sharing: int = 1
    memory_limit: int | None = None
    round_seconds: float | None = None
    journals: str | None = None
    own: Sequence[ExperimentDefinition] = ()


class Row(NamedTuple):
    r"""One round of one seed; values other than numbers are JSON, to the last bit."""

    seed: int
    round: int
    X: str
    Y: str
    objective: str | None
    recommendation: str
    recommended_objective: str | None


@dataclass(frozen=True)
class Failure:
    r"""Why a block has failed."""

    round: int
    cause: str
    traceback: str = ""


@dataclass(frozen=True)
class Report:
    r"""What a worker has played of a block.

    Args:
        kind: The kind of its strategy.
        rows: The new rounds, seed by seed.
        seconds: Times of each new round by its number: asking, evaluating, telling.
        last_round: The last round that is completed.
        state: The strategy's state then, as JSON.
        failure: Why the block has failed, if it has.
        refused: Why this worker refuses the campaign, if it does.
        host: The machine and its processor.
        cpu_seconds: The CPU time that the process has spent on this report.
        peak_bytes: The maximum memory that the process has had so far.
    """

    block: Block
    kind: str = ""
    rows: list[Row] = field(default_factory=list)
    seconds: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    last_round: int = -1
    state: str | None = None
    failure: Failure | None = None
    refused: str | None = None
    host: str = ""
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


def versions() -> dict[str, str]:
    r"""The versions on which results depend."""
    return {"botorch_risk": __version__, **dict(_installed())}


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    r"""Read once, as the files of metadata are long."""
    return tuple((name, metadata.version(name)) for name in ("botorch", "gpytorch", "torch"))


class _Live(NamedTuple):
    r"""A block that this process has begun, with its fitted models."""

    name: tuple[Any, ...]
    journal: Journal
    rounds: Iterator[int]


_live: list[_Live] = []  # at most one: a block most often comes back to the worker that had it


def advance(task: Task) -> Report:
    r"""Play a block for `report_seconds`, and at least one round of it.

    Errors of the problem or the strategy are reported, with the rounds before them.
    """
    host = f"{platform.node()}, {_processor()}"
    if (own := versions()) != dict(task.versions):
        refused = f"Expected the versions {dict(task.versions)}. Got {own} on {host}."
        return Report(task.block, refused=refused)
    started, deadline = time.process_time(), time.monotonic() + task.report_seconds
    journal, failure = Journal(task.last_round, _state_of(task)), None
    try:
        _take_share(task)
        with _one_thread(), _memory(task.memory_limit), RoundLimit(task.round_seconds) as limit:
            live = _live.pop() if _live else None
            if live is None or live.name != _name(task, task.last_round):
                live = _begin(task)
            journal = live.journal
            for last in live.rounds:
                limit.begin()
                if time.monotonic() >= deadline:
                    _live.append(live._replace(name=_name(task, last)))
                    break
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # such as the SystemExit of a user's function
        bound = "" if task.memory_limit is None else f" (limit: {task.memory_limit:,} bytes)"
        text = f"{type(error).__name__}: {error}{bound}"
        failure = Failure(journal.last_round + 1, text, traceback.format_exc())
    last, state = journal.last_round, journal.state
    records = journal.take()
    return Report(
        block=task.block,
        kind=journal.kind,
        rows=[row for record in records for row in rows_of(record, task.block.seeds)],
        seconds={record.index: record.seconds for record in records},
        last_round=last,
        state=None if state is None else json.dumps(state),
        failure=failure,
        host=host,
        cpu_seconds=time.process_time() - started,
        peak_bytes=_peak_bytes(),
    )


def rows_of(record: RoundRecord, seeds: tuple[int, ...]) -> list[Row]:
    r"""Split a completed round by seed."""
    return [
        Row(
            seed,
            record.index,
            json.dumps(record.X[r].tolist()),
            json.dumps(record.Y[r].tolist()),
            _json(record.objective, r),
            json.dumps(record.recommendation[r].tolist()),
            _json(record.recommended_objective, r),
        )
        for r, seed in enumerate(seeds)
    ]


def _json(value: Tensor | None, replicate: int) -> str | None:
    return None if value is None else json.dumps(value[replicate].tolist())


def _name(task: Task, last_round: int) -> tuple[Any, ...]:
    return task.campaign, task.block, task.device, last_round


def _state_of(task: Task) -> dict[str, Any] | None:
    return None if task.state is None else json.loads(task.state)


def _begin(task: Task) -> _Live:
    block = task.block
    known = (*task.own, *experiments_of(task.modules))
    definition = changed(get_experiment(block.experiment, known), task.setting)
    problem = definition.problem_of(block.seeds)
    space = decision_space(problem, task.device)
    strategy = definition.build(block.strategy, space, block.seeds)
    folder = None if task.journals is None else Path(task.journals) / block.folder_name
    journal = Journal(task.last_round, _state_of(task), folder)
    rounds = play_rounds(strategy, problem, journal, block.num_rounds, definition.num_repeats)
    return _Live(_name(task, task.last_round), journal, rounds)


def _take_share(task: Task) -> None:
    r"""Use a part of a GPU's memory: PyTorch keeps what it has freed, which others then lack."""
    device = torch.device(task.device)
    if device.type == "cuda" and task.sharing > 1:
        torch.cuda.set_per_process_memory_fraction(_FOR_TENSORS / task.sharing, device.index)


@contextmanager
def _one_thread() -> Iterator[None]:
    r"""Use one thread per worker: more would only fight over the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _memory(limit: int | None) -> Iterator[None]:
    r"""Make allocations beyond a limit fail; the worker survives."""
    if limit is None:
        yield
        return
    if sys.platform != "linux":
        raise ValueError(f"Expected no memory limit outside Linux. Got {limit} bytes.")
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _peak_bytes() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else 1024 * peak)


@cache
def _processor() -> str:
    r"""Name the kind of processor: results agree to the last bit on one kind only."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        return names[0] if names else platform.machine()
    except OSError:
        return f"{platform.machine()} {platform.processor()} {os.cpu_count()}"
