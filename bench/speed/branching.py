r"""How often a replicate's trajectory in a batch parts from the same seed alone.

    python -m bench.speed.branching

From an identical state a step agrees to 1e-6 whatever the batch (a test); over many rounds the
rounding of differently shaped matrix products can tip a tie between two optima. RAHBO on
Branin and on the sine, in one batch and one by one.
"""

import argparse
import warnings

import torch
from torch import Tensor

from bench.speed.timing import environment
from botorch_risk.seeding import generators
from botorch_risk.strategies import rahbo
from botorch_risk.test_functions import HeteroscedasticBranin, HeteroscedasticSine

PROBLEMS = {"sine": HeteroscedasticSine(), "branin": HeteroscedasticBranin()}


def trajectory(name: str, seeds: list[int], num_rounds: int) -> Tensor:
    r"""The points asked for after the initial design, on the unit cube, `R x T x d`."""
    problem = PROBLEMS[name]
    strategy = rahbo(problem.bounds, seeds, num_repeats=10, risk_aversion=1.0)
    asked = []
    for index in range(num_rounds + 1):
        X = strategy.ask()
        asked.append(X)
        streams = generators(seeds, "observations", index)
        strategy.tell(X, problem.sample_repeats(X, 10, streams))
    lower, upper = problem.bounds
    return (torch.cat(asked[1:], dim=-2) - lower) / (upper - lower)


def main(replicates: int = 16, rounds: int = 60) -> None:
    print(f"\n## Branching, R = {replicates}, T = {rounds}\n\n{environment('cpu')}.\n")
    print("| problem | seeds that part by more than 1e-6 | in round | after 10 rounds at most |")
    print("|---|---|---|---|")
    for name in PROBLEMS:
        seeds = list(range(replicates))
        together = trajectory(name, seeds, rounds)
        alone = torch.cat([trajectory(name, [seed], rounds) for seed in seeds])
        distance = (together - alone).abs().amax(dim=-1)  # R x T
        parted = distance > 1e-6
        first = [int(row.to(torch.uint8).argmax()) + 1 for row in parted if row.any()]
        cells = [name, f"{len(first)} of {replicates}", ", ".join(map(str, sorted(first)))]
        print(f"| {' | '.join(cells)} | {distance[:, :10].max():.0e} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=60)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
