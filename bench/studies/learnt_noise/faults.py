r"""What copies and wrong readings do to a model, next to the same table without them.

OMP_NUM_THREADS=1 python -m bench.studies.learnt_noise.faults [PROBLEM ...]
    [--out results/learnt_noise] [--seeds 2] [--first 0] [--repeats 1 2 3 5]

It resumes, and prints its table at the end.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.studies.learnt_noise.methods import Prediction
from bench.studies.learnt_noise.problems import PROBLEMS, Data, Problem, draw
from bench.studies.learnt_noise.run import parser, scores
from bench.studies.stored_rows import append, missing_cases, read
from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP

NUM_SEEDS, COUNTS = 2, (1, 2, 3, 5)
KEY = ("problem", "k", "seed", "fault", "trim")
COUNTED = ("dropped", "hits", "wrong", "merged")
COPIED, WRONG = 1 / 5, 1 / 50  # shares of rows and of readings
DEVIATIONS = 10.0  # of a wrong reading
FAULTS = {
    "none": (None, 5.0, 4.0),
    "copies": (None,),
    "near copies": (None,),
    "wrong": (None, 5.0, 4.0),
}


def with_fault(fault: str, data: Data, problem: Problem, seed: int) -> tuple[Tensor, Tensor]:
    r"""The readings of a table with a fault, and which of them are wrong."""
    Y, k = data.Y.clone(), data.Y.shape[-1]
    wrong = torch.zeros_like(Y, dtype=torch.bool)
    if fault == "wrong":
        generator = torch.Generator().manual_seed(seed + 100 * k)
        wrong = torch.rand(Y.shape, generator=generator) < WRONG
        if not wrong.any():
            wrong.view(-1)[torch.randint(wrong.numel(), (1,), generator=generator)] = True
        deviation = problem.noise(data.X).reshape(-1, 1)
        sign = torch.where(torch.rand(Y.shape, generator=generator) < 0.5, -1.0, 1.0)
        return Y + wrong * DEVIATIONS * deviation * sign, wrong
    if fault != "none":
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(Y), generator=generator)[: int(COPIED * len(Y))]
        size = 1e-6 if fault == "near copies" else 0.0
        change = torch.randn(len(rows), k, generator=generator, dtype=Y.dtype)
        Y[rows] = Y[rows, :1] + size * change
    return Y, wrong


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, str, float | None]]:
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for name in arguments.names or PROBLEMS:
            for k in arguments.repeats:
                for fault, limits in FAULTS.items():
                    if k == 1 and "copies" in fault:
                        continue
                    for trim in limits:
                        yield name, k, seed, fault, trim


def run_one(name: str, k: int, seed: int, fault: str, trim: float | None) -> dict[str, Any]:
    data = draw(PROBLEMS[name], k, seed)
    Y, wrong = with_fault(fault, data, PROBLEMS[name], seed)
    model = MeanVarianceGP(data.X, Y, trim=trim)
    fit_exact_gp(model)
    with torch.no_grad():
        noise = model.predicted_noise(data.test_X).squeeze(-1)
        found = Prediction(*model.mean_marginals(data.test_X), noise)
    row, column = model.dropped_readings.unbind(-1)
    return {
        **dict(zip(KEY, (name, k, seed, fault, trim), strict=True)),
        **scores(found, data),
        "dropped": len(row),
        "hits": int(wrong[row, column].sum()),
        "wrong": int(wrong.sum()),
        "merged": int((model.train_counts < k).sum()) if trim is None else 0,
    }


def report(path: Path) -> None:
    r"""Print a table of differences to the same readings without a fault and without trimming."""
    rows = read(path)
    plain = {
        (row["problem"], row["k"], row["seed"]): row["nlpd"]
        for row in rows
        if row["fault"] == "none" and row["trim"] is None
    }
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = PROBLEMS[row["problem"]].tail, row["fault"], row["trim"], row["k"]
        groups.setdefault(key, []).append(row)
    print(
        "| tail | fault | trim | k | density | worst cell | dropped | wrong ones found | merged |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for (tail, fault, trim, k), chosen in sorted(groups.items(), key=str):
        change = [row["nlpd"] - plain[row["problem"], row["k"], row["seed"]] for row in chosen]
        total = {name: sum(row[name] for row in chosen) for name in COUNTED}
        print(
            f"| {tail} | {fault} | {trim} | {k} | {sum(change) / len(change):+.3f} "
            f"| {max(change):+.3f} | {total['dropped']} | {total['hits']} of {total['wrong']} "
            f"| {total['merged']} |"
        )


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given = parser(__doc__, NUM_SEEDS, COUNTS).parse_args()
    path = given.out / "faults.jsonl"
    for _ in append(path, (run_one(*case) for case in missing_cases(path, KEY, cases(given)))):
        pass
    report(path)


if __name__ == "__main__":
    main()
