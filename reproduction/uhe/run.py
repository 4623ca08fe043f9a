r"""Runs the experiments behind this folder's tables; stop it at any moment, it resumes.

python -m reproduction.uhe.run [NAME ...] [--out results/uhe] [--seeds N] [--rounds N]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from botorch.exceptions.warnings import BotorchWarning

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.registry import get_experiment

METHODS = (
    "UHE-BO",
    "MAP",
    "pseudo-data",
    "RA-BO",
    "Random+EXP3",
    "A-GP-UCB",
    "Wang-de-Freitas",
    "Portfolio",
    "Random",
)


@dataclass(frozen=True)
class Part:
    r"""Strategies of an experiment that are run on the same seeds, which start at 0.

    Args:
        name: The experiment, without `uhe-`.
        num_seeds: How many; the paper has ten, which are the first.
        labels: The strategies.
        suffix: Of the file.
        needs: The modules of an extra, without which the part is left out.
        num_rounds: The rounds; the experiment's own if omitted.
    """

    name: str
    num_seeds: int
    labels: tuple[str, ...] = METHODS
    suffix: str = ""
    needs: tuple[str, ...] = ()
    num_rounds: int | None = None

    @property
    def missing(self) -> list[str]:
        return [module for module in self.needs if importlib.util.find_spec(module) is None]

    def path(self, out: Path) -> Path:
        return out / f"{self.name}{self.suffix}.sqlite"


SAMPLER = ("numpyro", "jax")
PARTS = (  # the slowest last
    Part("branin", 20),
    Part("deceptive", 20),
    Part("h1", 20),
    Part("hartmann3", 20),
    Part("logistic", 20),
    Part("hartmann6", 10),
    Part("boosting", 10, needs=("xgboost",)),
    # Tenths of a second a flight, fifty flights an evaluation.
    Part("lunar", 5, ("UHE-BO", "MAP", "Random"), needs=("gymnasium", "Box2D"), num_rounds=50),
    # About 14 s a fit, most of it compilation: in full it would take over ten hours.
    Part("deceptive", 10, ("MCMC",), "-mcmc", SAMPLER, 55),
    Part("h1", 10, ("MCMC",), "-mcmc", SAMPLER, 55),
    Part("hartmann3", 10, ("MCMC",), "-mcmc", SAMPLER, 35),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = dict.fromkeys(part.name + part.suffix for part in PARTS)
    parser.add_argument("names", nargs="*", choices=[*names, []])
    parser.add_argument("--out", type=Path, default=Path("results/uhe"))
    parser.add_argument("--seeds", type=int, help="the most seeds of a part, for a trial")
    parser.add_argument("--rounds", type=int, help="the most rounds of a part, for a trial")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", BotorchWarning)
    for part in PARTS:
        name = part.name + part.suffix
        if arguments.names and name not in arguments.names:
            continue
        if part.missing:
            print(f"{name}: left out, it needs {' and '.join(part.missing)}", flush=True)
            continue
        start, definition = time.process_time(), get_experiment(f"uhe-{part.name}")
        seeds = range(min(part.num_seeds, arguments.seeds or part.num_seeds))
        rounds = part.num_rounds or definition.num_rounds
        rounds = min(rounds, arguments.rounds or rounds)
        for label in part.labels:
            Campaign(definition, part.path(arguments.out), seeds, (label,), rounds).run()
            seconds = time.process_time() - start
            print(f"{name}, {label}: {seconds:.0f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
