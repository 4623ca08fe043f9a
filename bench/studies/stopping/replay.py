r"""What `Strategy.stopping` says by fitted and by sampled hyperparameters from the same readings.

    python -m bench.studies.stopping.replay --to FOLDER    # goes on where it was stopped
    python -m bench.studies.stopping.replay --pack FOLDER  # into fitted.jsonl.gz, sampled.jsonl.gz

The readings come from `bench.studies.coverage.looks`, with w chosen.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Tensor

from bench.studies.coverage.looks import BELIEFS, SEEDS, pairs, readings, search
from bench.studies.coverage.report import rounded
from bench.studies.stopping.report import LEVELS, LOOKS
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import CertifiedProblem

RISKS = ("expectation", "conditional-value-at-risk")


def replay(
    problem: CertifiedProblem, seeds: list[int], Z: Tensor, Y: Tensor, num_samples: int
) -> dict[str, Any]:
    r"""The quantiles of the regret under the model, `looks x levels x R`, and the regrets.

    Args:
        problem: A pair of a function and a risk.
        seeds: One for each replicate.
        Z: All inputs, `R x n x d`.
        Y: Their readings, `R x n`.
        num_samples: Samples of the hyperparameters; 0 for a fit.
    """
    strategy, first = search(problem, "chosen", seeds, num_samples), 2 * problem.dim + 2
    strategy.tell(Z[:, :first], Y[:, :first].unsqueeze(-1))
    row: dict[str, Any] = {"quantiles": [], "regret": []}
    row["first"] = regret(problem, strategy).tolist()
    for before, t in zip((0, *LOOKS), LOOKS, strict=False):
        new = slice(first + before, first + t)
        strategy.tell(Z[:, new], Y[:, new].unsqueeze(-1))
        _, view = strategy.views[0]
        gaps = strategy.method.regret(view)
        quantiles = [gaps.quantile(q, dim=-1, interpolation="higher") for q in LEVELS]
        row["quantiles"].append([each.tolist() for each in quantiles])
        row["regret"].append(regret(problem, strategy).tolist())
    return row


def regret(problem: CertifiedProblem, strategy: Strategy) -> Tensor:
    r"""The regret of each recommendation, `R`."""
    return problem.optimal_risk - problem.objective(strategy.recommend())


def pack(folder: Path) -> None:
    r"""Collect the rows of all pairs, a file for each belief."""
    rows = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    for belief in BELIEFS:
        lines = [json.dumps({"pair": row["pair"], **rounded(row[belief])}) for row in rows]
        path = Path(__file__).with_name(f"{belief}.jsonl.gz")
        with gzip.GzipFile(path, "wb", mtime=0) as file:  # the same bytes for the same rows
            file.write("\n".join(lines).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--pack", type=Path)
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments.pack)
    if arguments.to is None:
        return
    torch.set_num_threads(1)
    arguments.to.mkdir(parents=True, exist_ok=True)
    seeds = list(SEEDS[False])
    for form, risk in pairs(development=False):
        path = arguments.to / f"{form}.{risk}.json"
        if risk not in RISKS or path.exists():
            continue
        problem = CertifiedProblem(form, risk)
        known = readings(problem, "chosen", seeds)
        rows = {name: replay(problem, seeds, *known, n) for name, n in BELIEFS.items()}
        write_text(path, json.dumps({"pair": f"{form}-{risk}", **rows}))
        print(path.name, flush=True)


if __name__ == "__main__":
    main()
