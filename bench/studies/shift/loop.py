r"""Runs the study with outcomes that have to be learnt; resumes.

OMP_NUM_THREADS=1 python -m bench.studies.shift.loop [PROBLEM ...] [--balls NAME ...]
    [--out results/shift]

Seeds 0 to 19 as one computation: an initial design of 10 and 30 rounds, each with a context
drawn from the distribution before it moves. The recommended decision is then judged under each
shift. One radius per ball: the mean of what the rule found for the problem with known outcomes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.studies.shift.problems import Problem, problems
from bench.studies.shift.run import BALLS, NUM_SEEDS, contexts_of
from bench.studies.stored_rows import append, missing_cases, read
from botorch_risk.risk import Expectation
from botorch_risk.strategies import risk_search
from botorch_risk.test_functions import EnvironmentalBranin, Newsvendor

NUM_INITIAL, ROUNDS = 10, 30
TESTS = {"newsvendor": Newsvendor, "branin": EnvironmentalBranin}


def mean_radius(out: Path, name: str, ball: str, rule: str) -> float:
    rows = [
        row["radius"]
        for row in read(out / f"{name}.jsonl")
        if (row["ball"], row["choice"], row["shift"]) == (ball, rule, "none")
    ]
    return sum(rows) / len(rows)


def recommended(name: str, problem: Problem, measure: Any) -> Tensor:
    r"""The decision after all rounds, `R x d_x`."""
    test = TESTS[name]()
    if name == "branin":  # ten contexts may lie between the nodes that resolve forty
        problem = replace(problem, num_nodes=225)
    seeds = list(range(NUM_SEEDS))
    strategy = risk_search(
        test.decision_bounds,
        seeds,
        environment=contexts_of(problem, test.num_environment),
        risk_measure=measure,
        num_initial=NUM_INITIAL,
    )
    met = [problem.data(seed)[0].observed for seed in seeds]  # the same contexts for all arms
    for index in range(ROUNDS + 1):
        X = strategy.ask()
        first = 0 if index == 0 else NUM_INITIAL + index - 1
        contexts = torch.stack([each[first : first + X.shape[-2]] for each in met])
        pairs = torch.cat([X, contexts], dim=-1)
        strategy.tell(pairs, test._evaluate_true(pairs).unsqueeze(-1))
    return strategy.recommend()


def rows_of(name: str, problem: Problem, ball: str, radius: float) -> Iterator[dict[str, Any]]:
    start = time.process_time()
    measure = BALLS[ball](radius) if ball in BALLS else Expectation()
    decisions = recommended(name, problem, measure)
    seconds = time.process_time() - start
    for shift, deployed in problem.data(0)[0].deployed.items():
        of_grid = problem.outcomes(deployed).mean(dim=-1)
        found = Problem(decisions, problem.outcome, problem.data).outcomes(deployed).mean(dim=-1)
        best = torch.maximum(of_grid.max(), found.max())
        regrets = (best - found) / (best - of_grid.mean())
        for seed, regret in enumerate(regrets.tolist()):
            yield {
                "problem": name,
                "ball": ball,
                "radius": radius,
                "shift": shift,
                "seed": seed,
                "regret": regret,
                "seconds": seconds,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROBLEM")
    parser.add_argument("--out", type=Path, default=Path("results/shift"))
    parser.add_argument("--balls", nargs="*", default=["none", *BALLS])
    parser.add_argument("--rule", default="bootstrap 0.5")
    arguments = parser.parse_args()
    known, path = problems(), arguments.out / "loop.jsonl"
    wanted = [(name, ball) for name in arguments.names or TESTS for ball in arguments.balls]
    for name, ball in missing_cases(path, ("problem", "ball"), wanted):
        radius = 0.0 if ball == "none" else mean_radius(arguments.out, name, ball, arguments.rule)
        for _ in append(path, list(rows_of(name, known[name], ball, radius))):
            pass
        print(name, ball, radius, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
