r"""What a strategy says of its regret, at two looks at 60 pairs of a function and a risk.

    python -m bench.studies.stopping.replay --to FOLDER    # goes on where it was stopped
    python -m bench.studies.stopping.replay --pack FOLDER  # into looks.jsonl.gz

`risk_search` reads with w chosen (`bench.studies.coverage.looks`). After 15 and 30 rounds a row
has the quantiles of the regret by samples of the hyperparameters, the regret, and the decision.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Tensor

from bench.studies.coverage.looks import LOOKS, readings, search
from bench.studies.stored_rows import pack
from botorch_risk.stopping import strategy_regret_samples
from botorch_risk.test_functions import CertifiedProblem
from botorch_risk.test_functions.certified import certificates

SEEDS = tuple(range(1200, 1220))  # of nothing else
NUM_PAIRS, NUM_SAMPLES = 60, 16
DELTA = 0.05
LEVELS = (0.5, 0.8, 1 - DELTA, 1 - DELTA / len(LOOKS))
STORED = Path(__file__).with_name("looks.jsonl.gz")


def pairs() -> list[tuple[str, str]]:
    r"""A random choice of the certified pairs; a ball in MMD takes half a minute a replicate."""
    every = [(form, risk) for form, risks in certificates().items() for risk in risks]
    return random.Random(71).sample([each for each in every if each[1] != "mmd-ball"], NUM_PAIRS)


def replay(problem: CertifiedProblem, seeds: list[int], Z: Tensor, Y: Tensor) -> dict[str, Any]:
    r"""The row of a pair: quantiles `looks x levels x R`, regrets, and decisions.

    Args:
        problem: A pair of a function and a risk.
        seeds: One for each replicate.
        Z: All inputs, `R x n x d`.
        Y: Their readings, `R x n`.
    """
    strategy, first = search(problem, "chosen", seeds, NUM_SAMPLES), 2 * problem.dim + 2
    strategy.tell(Z[:, :first], Y[:, :first].unsqueeze(-1))
    row: dict[str, Any] = {"first": regret(problem, strategy.recommend()).tolist()}
    row |= {"quantiles": [], "regret": [], "recommended": []}
    for before, t in zip((0, *LOOKS), LOOKS, strict=False):
        new = slice(first + before, first + t)
        strategy.tell(Z[:, new], Y[:, new].unsqueeze(-1))
        samples = strategy_regret_samples(strategy)
        quantiles = [samples.quantile(q, dim=-1, interpolation="higher") for q in LEVELS]
        x = strategy.recommend()
        row["quantiles"].append([each.tolist() for each in quantiles])
        row["regret"].append(regret(problem, x).tolist())
        row["recommended"].append(x.tolist())
    return row


def regret(problem: CertifiedProblem, x: Tensor) -> Tensor:
    r"""The regret of decisions `R x d_x`."""
    return problem.optimal_risk - problem.objective(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--pack", type=Path)
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments.pack, STORED)
    if arguments.to is None:
        return
    torch.set_num_threads(1)
    arguments.to.mkdir(parents=True, exist_ok=True)
    seeds = list(SEEDS)
    for form, risk in pairs():
        path = arguments.to / f"{form}.{risk}.json"
        if path.exists():
            continue
        problem = CertifiedProblem(form, risk)
        row = replay(problem, seeds, *readings(problem, "chosen", seeds))
        write_text(path, json.dumps({"form": form, "risk": risk, **row}))
        print(path.name, flush=True)


if __name__ == "__main__":
    main()
