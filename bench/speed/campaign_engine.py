r"""What campaigns cost beside the plain loop, and where they end to scale.

    python -m bench.speed.campaign_engine [--part blocks | tasks | writer | scale]

`blocks`: a block of about a minute as a campaign on one process, and the same rounds by
`play_rounds`, in turns; CPU time of this process and its children. `tasks`: 1,000 tasks that
sleep for a second. `writer`: how fast reports are committed. `scale`: a simulation with what
`writer` has measured.
"""

import argparse
import dataclasses
import heapq
import multiprocessing
import pickle
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from botorch_risk_bench.campaigns import (
    Campaign,
    CampaignStore,
    Dask,
    Journal,
    Options,
    Processes,
    Series,
    play_rounds,
    run_campaign,
)
from botorch_risk_bench.campaigns.engines import Engine
from botorch_risk_bench.campaigns.worker import Task, advance, versions
from botorch_risk_bench.experiments import ExperimentDefinition, get_experiment
from botorch_risk_bench.experiments.problem import decision_bounds
from torch import Generator, Tensor

from bench.speed.timing import environment
from botorch_risk.strategies import random_search

MODULE = "bench.speed.campaign_engine"
QUIET = Options(progress=False)
BLOCK_ROUNDS = 120  # about a minute of RAHBO, 16 seeds
HANDLING_SECONDS = 0.01  # of a report beside the commit: unpickling it, submitting the next task


class Sleep:
    r"""A problem that takes half a second, and no work."""

    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        time.sleep(0.5)
        return X.expand(*X.shape[:-1], num_repeats)


EXPERIMENTS = (
    ExperimentDefinition(
        name="sleep",
        description="A second of sleep for the initial design and one round",
        problem=Sleep,
        strategies={"random": random_search},
        num_initial=1,
        num_rounds=1,
        num_repeats=1,
        objective="x",
    ),
)


def cpu_seconds() -> float:
    r"""Of this process and of its children, which have to end first."""
    for child in multiprocessing.active_children():
        child.join()
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(call: Callable[[], object]) -> tuple[float, float]:
    r"""Wall and CPU time."""
    cpu, start = cpu_seconds(), time.perf_counter()
    call()
    wall = time.perf_counter() - start
    return wall, cpu_seconds() - cpu


def blocks(num_times: int = 3) -> None:
    r"""A block of 16 seeds, in a few reports."""
    series = Series("branin", "RAHBO", num_seeds=16, num_rounds=BLOCK_ROUNDS)
    campaign = Campaign("block", [series])

    def plain() -> None:
        experiment, seeds = get_experiment("branin"), list(range(16))
        problem = experiment.problem_of(seeds)
        strategy = experiment.build("RAHBO", decision_bounds(problem), seeds)
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(folder=Path(folder))
            for _ in play_rounds(strategy, problem, journal, BLOCK_ROUNDS, experiment.num_repeats):
                pass

    def in_blocks() -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_campaign(campaign, Path(folder) / "a", Processes(1), QUIET)

    torch.set_num_threads(1)
    ways = {"plain loop": plain, "campaign": in_blocks}
    found = [{name: timed(way) for name, way in ways.items()} for _ in range(num_times)]
    print("| a block of 16 seeds of RAHBO | wall, s | CPU, s |\n|---|---|---|")
    for name in ways:
        wall, cpu = (statistics.median(each[name][i] for each in found) for i in range(2))
        print(f"| {name} | {wall:.1f} | {cpu:.1f} |")
    ratios = [each["campaign"][1] / each["plain loop"][1] for each in found]
    print(f"\nCPU time {100 * (statistics.median(ratios) - 1):+.1f} %, with the start of a process")


def sleeping(num_tasks: int, engine: Engine) -> Callable[[], object]:
    r"""A campaign of tasks that sleep for a second."""
    campaign = Campaign("sleep", [Series("sleep", num_seeds=num_tasks)], 1, (MODULE,))

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_campaign(campaign, Path(folder) / "a.sqlite", engine, QUIET)

    return call


def tasks(num_tasks: int = 1000, num_workers: int = 8) -> None:
    r"""Tasks that sleep: what is beyond that is the engine.

    Fewer tasks are run first, and the difference counts: starting the workers is paid once.
    """
    print(f"| {num_tasks} tasks of a second, {num_workers} workers | wall beyond, ms | CPU, ms |")
    print("|---|---|---|")
    engines: dict[str, Engine] = {"processes": Processes(num_workers), "Dask": Dask(num_workers)}
    few = num_tasks // 5
    for name, engine in engines.items():
        started, ended = (timed(sleeping(number, engine)) for number in (few, num_tasks))
        wall, cpu = (last - first for first, last in zip(started, ended, strict=True))
        each = 1000 / (num_tasks - few)
        beyond = each * (wall - (num_tasks - few) / num_workers)
        print(f"| {name}, a task | {beyond:.1f} | {each * cpu:.1f} |", flush=True)


def writer(num_reports: int = 200, num_rounds: int = 10) -> float:
    r"""Commits reports of 16 seeds and some rounds; seconds a report."""
    campaign = Campaign("writer", [Series("branin", "GP-UCB", 16, num_rounds=num_rounds)])
    (block,) = campaign.blocks()
    task = Task(block, {}, (), -1, None, "writer", versions(), report_seconds=1e9)
    report = advance(task)
    with (
        tempfile.TemporaryDirectory() as folder,
        CampaignStore(Path(folder) / "a", campaign) as store,
    ):
        start = time.perf_counter()
        for number in range(num_reports):
            rows = [row._replace(seed=row.seed + 16 * number) for row in report.rows]
            seeds = tuple(seed + 16 * number for seed in block.seeds)
            moved = dataclasses.replace(block, seeds=seeds)
            store.commit(dataclasses.replace(report, block=moved, rows=rows))
        wall = time.perf_counter() - start
        size = store.path.stat().st_size
    count = num_reports * len(report.rows)
    message = len(pickle.dumps(dataclasses.replace(task, state=report.state)))
    print("| reports of 16 seeds | |\n|---|---|")
    print(f"| rows a second | {count / wall:,.0f} |")
    print(f"| ms a report of {num_rounds + 1} rounds | {1000 * wall / num_reports:.1f} |")
    print(f"| bytes a row on disk | {size / count:,.0f} |")
    print(f"| bytes of a report | {len(pickle.dumps(report)):,} |")
    print(f"| bytes of a task that goes on from there | {message:,} |\n")
    return wall / num_reports


def simulated(
    num_workers: int, num_tasks: int, service: float, report_seconds: float, seed: int = 0
) -> tuple[float, float]:
    r"""One driver that takes reports in turn: its busy share, and the idle share of the workers."""
    stream = random.Random(seed)
    num_reports = sum(max(1, round(stream.lognormvariate(1.0, 1.0))) for _ in range(num_tasks))
    ready = [(report_seconds * stream.random(), worker) for worker in range(num_workers)]
    heapq.heapify(ready)
    now = busy = idle = 0.0
    for _ in range(num_reports):
        arrived, worker = heapq.heappop(ready)
        now = max(now, arrived) + service
        busy += service
        idle += now - arrived
        heapq.heappush(ready, (now + report_seconds * stream.uniform(0.9, 1.1), worker))
    return busy / now, idle / (num_workers * now)


def scale(commit_seconds: float) -> None:
    r"""10^5 tasks of some reports on up to 10^4 workers."""
    service, every = commit_seconds + HANDLING_SECONDS, QUIET.report_seconds
    print("| workers | reports a second | driver busy | workers idle |\n|---|---|---|---|")
    for num_workers in (10, 100, 1_000, 3_000, 10_000):
        busy, idle = simulated(num_workers, 100_000, service, every)
        rate = min(num_workers / every, 1 / service)
        print(f"| {num_workers:,} | {rate:.1f} | {100 * busy:.1f} % | {100 * idle:.2f} % |")
    print(f"\n{1000 * service:.0f} ms a report: full at {every / service:,.0f} workers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("blocks", "tasks", "writer", "scale"))
    part = parser.parse_args().part
    print(environment("cpu"), "\n")
    if part in (None, "blocks"):
        blocks()
    if part in (None, "tasks"):
        tasks()
    if part in (None, "writer", "scale"):
        seconds = writer()
        if part != "writer":
            scale(seconds)


if __name__ == "__main__":
    main()
