r"""What a reproduction runs, part by part; every part can be stopped at any moment and resumes."""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from botorch_risk.experiments.definition import ExperimentDefinition
from botorch_risk.experiments.experiment_run import ExperimentRun
from botorch_risk.experiments.registry import get_experiment


@dataclass(frozen=True)
class Part:
    r"""Strategies of an experiment that are run on the same seeds.

    Args:
        name: The experiment.
        labels: The strategies.
        num_seeds: How many seeds.
        num_rounds: How many rounds; the experiment's own if omitted.
        suffix: Of the file, where an experiment has several with different seeds.
        needs: Modules of an extra, without which the part is left out.
        first_seed: The first of the seeds.
    """

    name: str
    labels: tuple[str, ...]
    num_seeds: int
    num_rounds: int | None = None
    suffix: str = ""
    needs: tuple[str, ...] = ()
    first_seed: int = 0

    def path(self, out: Path) -> Path:
        r"""The store."""
        return out / f"{self.name}{self.suffix}.sqlite"

    @property
    def missing(self) -> list[str]:
        r"""The modules that are needed and not installed."""
        return [module for module in self.needs if importlib.util.find_spec(module) is None]


def parser(description: str | None, parts: Sequence[Part], out: str) -> argparse.ArgumentParser:
    r"""The arguments that every `run.py` takes."""
    arguments = argparse.ArgumentParser(description=description)
    names = dict.fromkeys(part.name for part in parts)
    arguments.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME")
    arguments.add_argument("--out", type=Path, default=Path(out))
    arguments.add_argument("--seeds", type=int, help="the most seeds of a part, for a trial")
    arguments.add_argument("--rounds", type=int, help="the most rounds of a part, for a trial")
    return arguments


def report_parser(description: str | None, out: str, to: Path) -> argparse.ArgumentParser:
    r"""The arguments that every `report.py` takes: where the rounds are, and where pages go."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--out", type=Path, default=Path(out), help="what run.py has stored")
    arguments.add_argument("--to", type=Path, default=to, help="the folder of tables and pictures")
    return arguments


def run(
    parts: Iterable[Part],
    arguments: argparse.Namespace,
    own: Sequence[ExperimentDefinition] = (),
) -> None:
    r"""Runs the parts of the experiments that were named, in their order; all if none was.

    Args:
        parts: All parts.
        arguments: From `parser`.
        own: Experiments beside those of the papers that parts name.
    """
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for part in parts:
        if arguments.names and part.name not in arguments.names:
            continue
        title = f"{part.name}, {', '.join(part.labels)}"
        if part.missing:
            print(f"{title}: left out, needs {' and '.join(part.missing)}", flush=True)
            continue
        start, definition = time.process_time(), get_experiment(part.name, own)
        count = min(part.num_seeds, arguments.seeds or part.num_seeds)
        seeds = range(part.first_seed, part.first_seed + count)
        rounds = part.num_rounds or definition.num_rounds
        rounds = min(rounds, arguments.rounds or rounds)
        ExperimentRun(definition, part.path(arguments.out), seeds, part.labels, rounds).run()
        print(f"{title}: {time.process_time() - start:.0f} s of CPU time", flush=True)


def run_with_portfolio(
    description: str | None,
    parts: Sequence[Part],
    out: str,
    portfolio: Callable[[Path], tuple[ExperimentDefinition, ...]],
) -> None:
    r"""The main of a `run.py`; parts with a portfolio run if their table is there."""
    arguments = parser(description, parts, out)
    arguments.add_argument("--table", type=Path, help="the back-tests of PortfolioOptimization")
    options = arguments.parse_args()
    if options.table is None:
        print("portfolio: left out, the papers' back-tests need --table", flush=True)
        run([part for part in parts if "portfolio" not in part.name], options)
    else:
        run(parts, options, portfolio(options.table))


def stores(parts: Iterable[Part], out: Path, name: str) -> list[Path]:
    r"""The stores of an experiment that are there."""
    paths = dict.fromkeys(part.path(out) for part in parts if part.name == name)
    return [path for path in paths if path.exists()]
