r"""Runs the study of this folder's README; stop it at any moment, it resumes.

OMP_NUM_THREADS=1 python -m bench.studies.learnt_noise.run [PROBLEM ...]
    [--out results/learnt_noise] [--seeds 10] [--first 0] [--repeats 1 2 3 5 10]
    [--methods NAME ...]
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bench.studies.learnt_noise.methods import METHODS, NEEDS_REPEATS, Prediction, timed
from bench.studies.learnt_noise.problems import PROBLEMS, Data, draw
from bench.studies.stored_rows import append, missing_cases

NUM_SEEDS, COUNTS = 10, (1, 2, 3, 5, 10)
KEY = ("problem", "k", "seed", "method")
_WIDTH = 1.959963984540054  # standard deviations of the 95 % band
WARM_UP = ("branin-constant", 5, 1_000_000)  # imports and first calls are nobody's CPU time


def scores(found: Prediction, data: Data) -> dict[str, float]:
    r"""How good a prediction is, on the test set.

    Returns:
        `nlpd`, the mean negative log density of new readings; `f`, the root mean squared error of
        the mean; `noise`, the root mean squared error of the log noise variance, and `bias`, its
        mean error; and the shares of `covered_f` and `covered_reading` in their 95 % bands.
    """
    of_reading = found.variance + found.noise
    misses, errors = data.test_Y - found.mean, data.test_f - found.mean
    density = (2 * math.pi * of_reading).log() + misses.square() / of_reading
    log_ratio = (found.noise / data.test_noise).log()
    values = {
        "nlpd": density.mean() / 2,
        "f": errors.square().mean().sqrt(),
        "noise": log_ratio.square().mean().sqrt(),
        "bias": log_ratio.mean(),
        "covered_f": (errors.abs() <= _WIDTH * found.variance.sqrt()).double().mean(),
        "covered_reading": (misses.abs() <= _WIDTH * of_reading.sqrt()).double().mean(),
    }
    return {name: value.item() for name, value in values.items()}


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, str]]:
    r"""A problem, a number of repeats, a seed and a method at a time, seed by seed."""
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for name in arguments.names or PROBLEMS:
            for k in arguments.repeats:
                for method in arguments.methods:
                    if k > 1 or method not in NEEDS_REPEATS:
                        yield name, k, seed, method


def run_one(name: str, k: int, seed: int, method: str) -> dict[str, Any]:
    r"""The row of one case."""
    data = draw(PROBLEMS[name], k, seed)
    found = timed(METHODS[method], data.X, data.Y, data.test_X)
    row = dict(zip(KEY, (name, k, seed, method), strict=True))
    row |= {**scores(found.prediction, data), "seconds": found.seconds}
    evidence = found.prediction.evidence
    return row if math.isnan(evidence) else {**row, "evidence": evidence}


def run(arguments: argparse.Namespace) -> None:
    r"""Runs what is not stored, and stores each row as it comes."""
    path = arguments.out / "rows.jsonl"
    missing = missing_cases(path, KEY, cases(arguments))
    for method in {case[-1] for case in missing}:
        run_one(*WARM_UP, method)
    start = time.process_time()
    for number in append(path, (run_one(*case) for case in missing)):
        if number % 500 == 0 or number == len(missing):
            seconds = time.process_time() - start
            print(f"{number} of {len(missing)}, {seconds:.0f} s of CPU time", flush=True)


def parser(
    description: str | None, num_seeds: int, counts: tuple[int, ...]
) -> argparse.ArgumentParser:
    r"""The arguments that choose cells of the study."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("names", nargs="*", choices=[*PROBLEMS, []], metavar="PROBLEM")
    arguments.add_argument("--out", type=Path, default=Path("results/learnt_noise"))
    arguments.add_argument("--seeds", type=int, default=num_seeds)
    arguments.add_argument("--first", type=int, default=0, help="the first of the seeds")
    arguments.add_argument("--repeats", type=int, nargs="+", default=counts)
    return arguments


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of fits that stop early; a NaN would show in the tables
    arguments = parser(__doc__, NUM_SEEDS, COUNTS)
    arguments.add_argument("--methods", nargs="+", choices=[*METHODS], default=[*METHODS])
    run(arguments.parse_args())


if __name__ == "__main__":
    main()
