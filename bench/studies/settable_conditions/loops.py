r"""Loops in which w can be set in every k-th round, and is drawn in the others.

    python -m bench.studies.settable_conditions.loops --to FOLDER
    python -m bench.studies.settable_conditions.report --pack FOLDER

Two strategies share the data: `risk_search` with `w_is_chosen=True` is asked in the rounds in which
w can be set, and with False in the others. All loops have the same initial design, whose w are
drawn. A file per pair and k is written once: the command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.problem import decision_space
from torch import Tensor

from bench.studies.open_benchmark.experiments import EXPERIMENTS, NUM_ROUNDS, SEARCH
from bench.studies.open_benchmark.outside_pairs import two_of_each_risk
from botorch_risk.seeding import generators
from botorch_risk.strategies import risk_search

SEEDS = tuple(range(600, 624))  # no rule was chosen on them
PAIRS = tuple(two_of_each_risk(72)[:10])
PROBLEMS = {each.name: each.problem for each in EXPERIMENTS}
NEVER = 0
EVERY = (1, NEVER, 3, 5)  # what says how large the lead is first
NOISE = 0.1  # standard deviation, of outcomes whose own is 1


def observed(problem: Any, asked: Tensor, seeds: list[int], t: int) -> tuple[Tensor, Tensor]:
    r"""Inputs `R x q x d` with w drawn where it was not set, and noisy outcomes `R x q x 1`."""
    environment, draws = problem.environment, generators(seeds, "observations", t)
    index = torch.stack(
        [torch.multinomial(environment.weights, asked.shape[1], True, generator=g) for g in draws]
    )
    noise = torch.stack([torch.randn(asked.shape[1], generator=g).double() for g in draws])
    is_set = asked.shape[-1] == problem.dim
    X = asked if is_set else torch.cat([asked, environment.points[index]], dim=-1)
    return X, (problem.evaluate_true(X) + NOISE * noise).unsqueeze(-1)


def loop(name: str, every: int, seeds: list[int], num_rounds: int = NUM_ROUNDS) -> dict[str, Any]:
    r"""A loop of all seeds.

    Returns:
        The regrets `R` of recommendations by each of the two strategies, after the last round.
    """
    problem: Any = PROBLEMS[name]()
    num_initial = 2 * problem.dim + 2
    known = {"environment": problem.environment, "risk_measure": problem.risk_measure}
    drawn, chosen = (
        risk_search(
            decision_space(problem),
            seeds,
            w_is_chosen=w_is_chosen,
            num_initial=num_initial,
            **known,
            **SEARCH,
        )
        for w_is_chosen in (False, True)
    )
    for t in range(num_rounds + 1):  # the first is the initial design
        is_set = every != NEVER and t > 0 and t % every == 0
        X, Y = observed(problem, (chosen if is_set else drawn).ask(), seeds, t)
        for strategy in (drawn, chosen):
            strategy.tell(X, Y)
    regret = {
        rule: (problem.optimal_risk - problem.objective(strategy.recommend())).tolist()
        for rule, strategy in (("drawn", drawn), ("chosen", chosen))
    }
    return {"pair": name, "every": every, "seeds": seeds, "regret": regret}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAIRS:
        for every in EVERY:
            path = folder / f"{name}.{every}.json"
            if not path.exists():
                write_text(path, json.dumps(loop(name, every, list(SEEDS))))
                print(path, flush=True)


if __name__ == "__main__":
    main()
