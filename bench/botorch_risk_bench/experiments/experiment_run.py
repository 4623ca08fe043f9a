r"""Several strategies of one experiment, on the same seeds, in one store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import torch
from tqdm import tqdm

from botorch_risk import __version__
from botorch_risk.seeding import as_seeds
from botorch_risk.strategies.arguments import public_name
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.loop import run_strategy
from botorch_risk_bench.experiments.problem import (
    Problem,
    ProblemFamily,
    decision_bounds,
    decision_space,
)
from botorch_risk_bench.experiments.store import ExperimentStore
from botorch_risk_bench.experiments.workers import end_with


def available_devices() -> list[str]:
    r"""The devices on which a strategy can compute in double precision.

    Example:
        >>> available_devices()
        ['cpu'...]
    """
    return ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def problem_of(definition: ExperimentDefinition, seeds: Sequence[int]) -> Problem:
    r"""The problem, on the CPU; where each seed has its own, the problems of these seeds."""
    problem = definition.problem()
    return problem.of_seeds(as_seeds(seeds)) if isinstance(problem, ProblemFamily) else problem


def identity_of(
    definition: ExperimentDefinition, problem: Problem, seeds: Sequence[int], device: str
) -> dict[str, Any]:
    r"""All that must not change between runs into one store, as JSON values."""
    optimum = definition.optimal_value
    return {
        "experiment": definition.name,
        "problem": public_name(type(problem)),
        "bounds": decision_bounds(problem).tolist(),
        "dtype": str(problem.bounds.dtype),
        "objective": definition.objective,
        "optimal_value": None if optimum is None else float(optimum(problem)),
        "num_initial": definition.num_initial,
        "num_repeats": definition.num_repeats,
        "settings": dict(definition.settings),
        "seeds": as_seeds(seeds),
        "device": torch.device(device).type,
        "package_version": __version__,
    }


@dataclass(frozen=True)
class ExperimentRun:
    r"""Strategies of one experiment that are run, stopped and resumed together.

    All strategies start from the same initial designs and see the same noise streams, so
    that differences between them are paired by seed.

    Args:
        definition: The experiment.
        path: The store. An existing one of this experiment is resumed.
        seeds: One seed per replicate.
        labels: The strategies to run; all of the experiment's by default.
        num_rounds: The number of rounds after the initial design; the experiment's own
            by default. Asking for more than before extends a campaign.
        device: Where the strategies compute. The problem stays on the CPU.

    Raises:
        ValueError: If a strategy or a device is unknown, or a number is below 1.

    Example:
        >>> from botorch_risk.strategies import random_search
        >>> definition = ExperimentDefinition(
        ...     name="my-oven", description="", problem=lambda: my_oven,
        ...     strategies={"random": random_search},
        ...     num_initial=5, num_rounds=20, num_repeats=10, objective="mean",
        ... )
        >>> ExperimentRun(definition, "oven.sqlite", seeds=range(3), labels=["randon"])
        Traceback (most recent call last):
        ValueError: Expected strategies of 'my-oven' (random). Got labels=['randon'].
    """

    definition: ExperimentDefinition
    path: str | Path
    seeds: Sequence[int]
    labels: Sequence[str] = ()
    num_rounds: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        known = self.definition.strategies
        labels = list(self.labels)
        if not set(labels) <= set(known):
            raise ValueError(
                f"Expected strategies of {self.definition.name!r} ({', '.join(known)}). "
                f"Got {labels=}."
            )
        if len(self.seeds) < 1 or self.total_rounds < 1:
            raise ValueError(
                "Expected at least 1 replicate and 1 round. Got "
                f"replicates={len(self.seeds)}, rounds={self.total_rounds}."
            )
        devices, device = available_devices(), self.device
        if device not in [*devices, *(["cuda"] if len(devices) > 1 else [])]:
            raise ValueError(
                f"Expected `device` to be there ({', '.join(devices)}). Got {device=}."
            )

    @property
    def total_rounds(self) -> int:
        r"""The number of rounds after the initial design."""
        return self.definition.num_rounds if self.num_rounds is None else self.num_rounds

    @cached_property
    def problem(self) -> Problem:
        r"""The problem, on the CPU; where each seed has its own, the problems of these seeds."""
        return problem_of(self.definition, self.seeds)

    @property
    def identity(self) -> dict[str, Any]:
        r"""All that must not change between runs into one store, as JSON values."""
        return identity_of(self.definition, self.problem, self.seeds, self.device)

    def prepare(self) -> None:
        r"""Creates the store, or checks that it is this experiment's.

        Raises:
            StoreError: If it is not. Nothing has been changed then.
        """
        ExperimentStore(self.path, self.identity).close()

    def run(self, num_jobs: int = 1, progress: bool = True) -> None:
        r"""Runs every strategy from where the store left it.

        Args:
            num_jobs: The number of processes; each takes one strategy at a time. They end with
                this one, even if it is killed.
            progress: Whether to show a bar for each strategy.

        Raises:
            StoreError: If the store is not this experiment's, or another process runs one of the
                strategies and does not end within ten seconds.
            ValueError: If `num_jobs` is below 1.
        """
        if num_jobs < 1:
            raise ValueError(f"Expected `num_jobs` to be at least 1. Got {num_jobs=}.")
        self.prepare()
        labels = dict.fromkeys(self.labels or self.definition.strategies)
        # Processes of our own: joblib's other backends may not be children of this one.
        joblib.Parallel(n_jobs=min(num_jobs, len(labels)), backend="loky")(
            joblib.delayed(self._run_one)(label, position, progress, os.getpid())
            for position, label in enumerate(labels)
        )

    def _run_one(self, label: str, position: int, progress: bool, parent: int) -> None:
        end_with(parent)
        definition = self.definition
        space = decision_space(self.problem, self.device)
        strategy = definition.build(label, space, self.seeds)
        with ExperimentStore(self.path, self.identity) as store:
            done = store.progress(label)[0] + 1
            with tqdm(
                desc=label,
                total=max(self.total_rounds + 1, done),
                initial=done,
                position=position,
                unit="round",
                disable=not progress,
            ) as bar:
                run_strategy(
                    strategy,
                    self.problem,
                    store,
                    label,
                    self.total_rounds,
                    definition.num_repeats,
                    on_round=lambda index: bar.update(index + 1 - bar.n),
                )
