r"""A decision with constraints, against a decision of each of its models alone.

`strategies.risk_search` fits a process to the objective and to each slack and maximises the bound
of the expectation where the values-at-risk of the slacks allow; n = 25 pairs (x, w), 4 restarts of
64 raw points. Beside it the same strategy on each outcome alone, with the risk that it has there: a
fit and the choice of a decision each. Run `python -m bench.speed.constrained_round`.
"""

import argparse
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from botorch_risk_bench.problems import ChanceConstrainedBranin, ChanceConstrainedGramacy
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.constraints import RiskConstraint
from botorch_risk.risk import Expectation, RiskMeasure, ValueAtRisk
from botorch_risk.seeding import generators
from botorch_risk.strategies import risk_search

NOISE_STD = 0.02
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}


def constraints_of(problem: Any) -> list[RiskConstraint]:
    chance = partial(RiskConstraint.chance, problem.environment, 0.0, delta=problem.delta)
    return [chance(outcome=1 + i, at_most=False) for i in range(problem.num_constraints)]


def observed(problem: Any, seeds: Sequence[int], num_points: int = 25) -> tuple[Tensor, Tensor]:
    r"""Decisions of a Sobol sequence, w of its distribution, and all outcomes."""
    search = risk_search(
        problem.bounds[:, : problem.num_decision],
        seeds,
        environment=problem.environment,
        risk_measure=Expectation(),
        num_initial=num_points,
    )
    decisions = search.ask()
    draws = generators(seeds, "w")
    W = torch.stack([problem.environment.sample(num_points, draw) for draw in draws])
    X = torch.cat([decisions, W], dim=-1)
    return X, problem.sample_outcomes(X, 1, generators(seeds, "noise"))


def decide(problem: Any, seeds: Sequence[int], X: Tensor, Y: Tensor, **options: Any) -> Tensor:
    r"""A fit of each model and the choice of a decision."""
    strategy = risk_search(
        problem.bounds[:, : problem.num_decision],
        seeds,
        environment=problem.environment,
        num_initial=X.shape[-2],
        **options,
        **SEARCH,
    )
    strategy.tell(X, Y)
    return strategy.ask()


def ways_of(problem: Any, seeds: Sequence[int]) -> dict[str, Any]:
    X, Y = observed(problem, seeds)
    slack: RiskMeasure = ValueAtRisk(problem.delta, strict=True)
    measures = [Expectation(), *[slack] * problem.num_constraints]

    def together() -> None:
        decide(
            problem, seeds, X, Y, risk_measure=Expectation(), constraints=constraints_of(problem)
        )

    def alone(outcome: int) -> None:
        decide(problem, seeds, X, Y[..., outcome], risk_measure=measures[outcome])

    each = {f"outcome {j} alone": partial(alone, j) for j in range(len(measures))}
    return {"with constraints": together, **each}


def main(repeats: int = 5) -> None:
    print(f"\n## Constraints\n\n{environment('cpu')}.\n")
    print("| problem | R | way | CPU ms | of all models alone |")
    print("|---|---|---|---|---|")
    for build in (ChanceConstrainedBranin, ChanceConstrainedGramacy):
        problem = build(noise_std=NOISE_STD, constraint_noise_std=NOISE_STD)
        for count in (1, 16):
            ways = ways_of(problem, range(count))
            seconds = interleaved(ways, repeats, clock=time.process_time)
            alone = sum(value for name, value in seconds.items() if "alone" in name)
            for name, value in seconds.items():
                print(
                    f"| {build.__name__} | {count} | {name} | {1e3 * value:.0f} | "
                    f"{value / alone:.2f} |"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
