r"""Runs the experiments behind results.md; stop it at any moment, it resumes.

python -m reproduction.rahbo.run [NAME ...] [--out results/rahbo]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.registry import get_experiment

ALL = ("RAHBO", "RAHBO-US", "GP-UCB", "RAHBO-paper", "RAHBO-US-paper", "GP-UCB-paper")
# Experiment: number of seeds, strategies. The paper's numbers of repetitions and rounds.
RUNS: dict[str, tuple[int, tuple[str, ...]]] = {
    "sine": (30, ALL),
    "branin": (25, ALL),
    "sine-variance": (30, ALL),
    "branin-variance": (25, ALL),
    "forest": (15, ("RAHBO", "GP-UCB")),
    # What GP-UCB asks for does not depend on the risk aversion: its points are those of "forest".
    "forest-100": (15, ("RAHBO",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*RUNS, []])
    parser.add_argument("--out", type=Path, default=Path("results/rahbo"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in arguments.names or RUNS:
        num_seeds, labels = RUNS[name]
        start = time.perf_counter()
        path = arguments.out / f"{name}.sqlite"
        Campaign(get_experiment(name), path, range(num_seeds), labels).run()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
