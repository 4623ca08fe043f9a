r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.vucb.run [NAME ...] [--table portfolio.csv] [--out results/vucb]

The outside baselines come last: 2.3 s of CPU a query for rho-KG-apx, measured over 15 queries on
Hartmann (1, 2), so 2 labels x 5 seeds x 60 queries x 6 problems take about 2.3 CPU-hours.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.registry import get_experiment
from botorch_risk.experiments.value_at_risk import register_value_at_risk_portfolio

# The paper has ten seeds, which cannot tell these methods apart; they are the first of ours.
NUM_SEEDS = {
    "var-branin-discrete": 30,
    "var-goldstein-discrete": 30,
    "var-hartmann12-discrete": 30,
    "var-hartmann21-discrete": 30,
    "var-branin-continuous": 30,
    "var-goldstein-continuous": 30,
    "var-hartmann12-continuous": 10,
    "var-hartmann21-continuous": 30,
    "var-portfolio": 10,
    "var-robot": 10,
}
OURS = (
    "V-UCB-Prob",
    "V-UCB-Unif",
    "V-UCB-observed",
    "StableOpt",
    "contextual-GP-UCB",
    "random",
)
OUTSIDE = ("rho-KG-apx", "qLogNEI-VaR")


@dataclass(frozen=True)
class Part:
    r"""Strategies that are run on the same seeds, which start at 0; all if `num_seeds` is 0."""

    suffix: str
    num_seeds: int
    labels: tuple[str, ...]
    names: tuple[str, ...]

    def path(self, out: Path, name: str) -> Path:
        return out / f"{name}{self.suffix}.sqlite"


PARTS = (  # the slowest last
    Part("", 0, OURS, tuple(NUM_SEEDS)),
    Part("-outside", 5, OUTSIDE, ("var-branin-discrete", "var-hartmann12-discrete")),
    Part(
        "-outside",
        5,
        OUTSIDE,
        ("var-goldstein-discrete", "var-hartmann21-discrete", "var-portfolio", "var-robot"),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NUM_SEEDS, []])
    parser.add_argument("--table", type=Path, help="the back-tests of PortfolioOptimization")
    parser.add_argument("--out", type=Path, default=Path("results/vucb"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    names = list(arguments.names or NUM_SEEDS)
    if arguments.table is not None:
        register_value_at_risk_portfolio(arguments.table)
    elif "var-portfolio" in names:
        names.remove("var-portfolio")
        print("var-portfolio: left out, it needs --table", flush=True)
    for part in PARTS:
        for name in [name for name in names if name in part.names]:
            start = time.perf_counter()
            path, seeds = part.path(arguments.out, name), range(part.num_seeds or NUM_SEEDS[name])
            Campaign(get_experiment(name), path, seeds, part.labels).run()
            seconds = time.perf_counter() - start
            print(f"{name}, {', '.join(part.labels)}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
