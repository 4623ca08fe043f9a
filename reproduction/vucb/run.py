r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.vucb.run [NAME ...] [--table portfolio.csv] [--out results/vucb]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.registry import get_experiment
from botorch_risk.experiments.value_at_risk import register_value_at_risk_portfolio

OURS = (
    "V-UCB-Prob",
    "V-UCB-Unif",
    "V-UCB-observed",
    "StableOpt",
    "contextual-GP-UCB",
    "random",
)
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
    for name in names:
        start = time.perf_counter()
        path = arguments.out / f"{name}.sqlite"
        Campaign(get_experiment(name), path, range(NUM_SEEDS[name]), OURS).run()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
