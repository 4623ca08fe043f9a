r"""Runs the experiments behind this folder's tables; stop it at any moment, it resumes.

python -m reproduction.truvar.run [NAME ...] [--out results/truvar] [--seeds N] [--rounds N]
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from botorch.exceptions.warnings import BotorchWarning

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.registry import get_experiment


@dataclass(frozen=True)
class Part:
    r"""Strategies of an experiment that are run on the same seeds, which start at 0."""

    name: str
    labels: tuple[str, ...]
    num_seeds: int
    num_rounds: int
    suffix: str = ""

    def path(self, out: Path) -> Path:
        return out / f"{self.name}{self.suffix}.sqlite"


# The paper has 100 starting points, and 200 functions. With three noise levels, rounds are about
# what the same cost of 800 buys.
PARTS = (
    Part("coast", ("TRUVAR", "GCHK", "straddle", "variance"), 100, 120),
    Part("coast-travel", ("TRUVAR", "GCHK"), 100, 120),
    Part("noise-levels", ("GCHK-1e-06",), 50, 55),
    Part("noise-levels", ("GCHK-0.001",), 50, 80),
    Part("noise-levels", ("TRUVAR",), 50, 160),
    Part("noise-levels", ("GCHK-0.05",), 50, 400),
    Part("svm", ("TRUVAR", "EI", "GP-UCB"), 100, 100),
    Part("synthetic-maximum", ("TRUVAR", "EI", "GP-UCB", "MRS"), 200, 100),
    Part("synthetic-maximum", ("MES",), 50, 100, "-50"),  # not batched over replicates
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*(part.name for part in PARTS), []])
    parser.add_argument("--out", type=Path, default=Path("results/truvar"))
    parser.add_argument("--seeds", type=int, help="the most seeds of a part, for a trial")
    parser.add_argument("--rounds", type=int, help="the most rounds of a part, for a trial")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    # Under the practical width some runs rule out the point of highest mean, which TRUVAR warns of.
    warnings.simplefilter("ignore", BotorchWarning)
    for part in PARTS:
        if arguments.names and part.name not in arguments.names:
            continue
        start = time.perf_counter()
        seeds = range(min(part.num_seeds, arguments.seeds or part.num_seeds))
        rounds = min(part.num_rounds, arguments.rounds or part.num_rounds)
        path = part.path(arguments.out)
        Campaign(get_experiment(part.name), path, seeds, part.labels, rounds).run()
        seconds = time.perf_counter() - start
        print(f"{part.name}, {', '.join(part.labels)}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
