r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.kde.run [NAME ...] [--table portfolio.csv] [--out results/kde]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.kde import register_portfolio
from botorch_risk.experiments.registry import get_experiment

# The paper has five seeds; where a run is cheap there are more, of which they are the first.
NUM_SEEDS = {
    "ackley": 20,
    "branin-context": 20,
    "hartmann": 20,
    "hartmann-complicated": 20,
    "newsvendor": 20,
    "portfolio-normal": 10,
    "portfolio-uniform": 10,
    "ackley-4": 10,
}
NUM_ROUNDS = 100


@dataclass(frozen=True)
class Part:
    r"""Strategies that are run on the same seeds, which start at 0; all if `num_seeds` is 0."""

    suffix: str
    num_seeds: int
    labels: tuple[str, ...]

    def path(self, out: Path, name: str) -> Path:
        return out / f"{name}{self.suffix}.sqlite"


PARTS = (  # the slowest last
    Part("", 0, ("SBO-KDE", "DRBO-KDE", "GP-UCB")),
    Part("-5", 5, ("StableOpt", "DRBO-MMD-minimax")),
    Part("-5", 5, ("DRBO-MMD",)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NUM_SEEDS, []])
    parser.add_argument("--table", type=Path, help="the back-tests of PortfolioOptimization")
    parser.add_argument("--out", type=Path, default=Path("results/kde"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if arguments.table is not None:
        register_portfolio(arguments.table)
    names = arguments.names or NUM_SEEDS
    if arguments.table is None:
        print("portfolio: left out, it needs --table", flush=True)
        names = [name for name in names if not name.startswith("portfolio")]
    for part in PARTS:
        for name in names:
            start = time.perf_counter()
            seeds = range(part.num_seeds or NUM_SEEDS[name])
            path = part.path(arguments.out, name)
            Campaign(get_experiment(name), path, seeds, part.labels, NUM_ROUNDS).run()
            seconds = time.perf_counter() - start
            print(f"{name}, {', '.join(part.labels)}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
