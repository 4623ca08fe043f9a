r"""Choosing where to measure next and how often, for 8 replicates at once.

`next_readings` on `HeteroscedasticBranin`, 40 points of 3 readings each, 4 restarts of 64 raw
points, beside the same for one replicate after the other, and beside RAHBO's bound, which chooses
the point alone. CPU seconds. Run `python -m bench.speed.readings`.
"""

import argparse
import time
import warnings
from typing import Any

import torch

from bench.speed.timing import environment, interleaved
from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.repeats import next_readings
from botorch_risk.seeding import generators
from botorch_risk.strategies import initial_design
from botorch_risk.test_functions import HeteroscedasticBranin

SEEDS = range(8)
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}


def models() -> tuple[MeanVarianceGP, list[MeanVarianceGP]]:
    r"""The model of all replicates, and the fitted ones of each by itself."""
    problem = HeteroscedasticBranin(noise_scale=2.0)
    X = initial_design(problem.bounds, list(SEEDS), 40)
    Y = problem.sample_repeats(X, 3, generators(list(SEEDS), "observations", 0))
    unit = (X - problem.bounds[0]) / (problem.bounds[1] - problem.bounds[0])
    together = MeanVarianceGP(unit, Y)
    alone = [MeanVarianceGP(x, y) for x, y in zip(unit, Y, strict=True)]
    for model in (together, *alone):
        model.fit_processes()
        model.eval()
    return together, alone


def main(repeats: int = 5) -> None:
    r"""Prints the table."""
    together, alone = models()
    bound = RiskAverseUpperConfidenceBound(together)
    seconds = interleaved(
        {
            "`next_readings`, 8 at once": lambda: next_readings(together, UNIT, SEEDS, **SEARCH),
            "one after the other": lambda: [
                next_readings(model, UNIT, seed, **SEARCH)
                for seed, model in zip(SEEDS, alone, strict=True)
            ],
            "RAHBO's bound, 8 at once": lambda: optimize_acqf_replicates(
                bound, UNIT, seeds=SEEDS, **SEARCH
            ),
        },
        repeats,
        clock=time.process_time,
    )
    print(f"## Readings\n\n{environment('cpu')}\n\n| way | seconds |\n|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.2f} |")
    print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(parser.parse_args().repeats)
