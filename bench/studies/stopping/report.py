r"""Print the tables of six looks in this folder's README from the looks stored next to it.

python -m bench.studies.stopping.report

A row has, for one pair of a problem and a risk, quantiles of the regret under the model at each
look and the regret, `looks x R`, and the regrets of the first recommendation.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import binomial_interval, median
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies.stored_rows import read

LOOKS, DELTA = (5, 10, 15, 20, 25, 30), 0.05
SHARES = (0.3, 0.1, 0.03)  # epsilon, in median regrets of the first recommendation
FACTORS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)  # of the gap: the first remedy
IN_A_ROW = 2  # looks at which the gap has to be small: the second
LEVELS = (0.5, 0.8, 0.95, 1 - DELTA / len(LOOKS))
FILES = {"replay": "Hyperparameters fitted", "known": "Hyperparameters known"}


def first_stop(gap: Tensor, epsilon: Tensor, in_a_row: int = 1) -> Tensor:
    r"""The look at which each run stops, `len(LOOKS)` for never, of gaps `looks x R`.

    That is the first look at which the gap is small, here and at the looks before, `in_a_row`.
    """
    enough = (gap <= epsilon).unfold(0, in_a_row, 1).all(dim=-1)
    first = enough.int().argmax(dim=0) + in_a_row - 1
    return first.where(enough.any(dim=0), len(LOOKS))


def stops(
    rows: list[dict[str, Any]], share: float, factor: float, in_a_row: int = 1
) -> tuple[int, int, Tensor]:
    r"""How many runs stopped, how many of these exceed epsilon, and the look of each run."""
    wrong, looks = 0, []
    for row in rows:
        gap = factor * torch.tensor(row["quantiles"], dtype=torch.double)[:, -1]
        regret = torch.tensor(row["regret"], dtype=torch.double)
        epsilon = share * median(torch.tensor(row["first"], dtype=torch.double))
        look = first_stop(gap, epsilon, in_a_row)
        stopped = look < len(LOOKS)
        at = regret.gather(0, look.clamp_max(len(LOOKS) - 1).unsqueeze(0)).squeeze(0)
        wrong += int((stopped & (at > epsilon)).sum())
        looks.append(look)
    every = torch.cat(looks)
    return int((every < len(LOOKS)).sum()), wrong, every


def coverage(rows: list[dict[str, Any]]) -> str:
    r"""How often quantiles of the regret held it, and the 95 % one widened, by the round."""
    columns = [(level, 1.0) for level in range(len(LEVELS))]
    columns += [(LEVELS.index(0.95), factor) for factor in FACTORS[1:]]
    cells = []
    for index, t in enumerate(LOOKS):
        cells.append([str(t)])
        for level, factor in columns:
            held = [
                torch.tensor(row["regret"][index])
                <= factor * torch.tensor(row["quantiles"][index][level])
                for row in rows
            ]
            cells[-1].append(f"{torch.cat(held).double().mean():.3f}")
    names = [f"{level:.3f}" for level in LEVELS] + [f"0.950 x {each:g}" for each in FACTORS[1:]]
    return table(["round", *names], cells)


def summary(rows: list[dict[str, Any]]) -> str:
    r"""Stops and errors of the rule, of two looks in a row, and of gaps widened by a factor."""
    known, judged = rows[::2], rows[1::2]
    cells = []
    for share in SHARES:
        cases = [("all", rows, 1.0, 1), ("all, two looks in a row", rows, 1.0, IN_A_ROW)]
        cases += [("judged", judged, factor, 1) for factor in FACTORS]
        for name, some, factor, in_a_row in cases:
            number, wrong, looks = stops(some, share, factor, in_a_row)
            low, high = binomial_interval(wrong, number) if number else (0.0, 1.0)
            rounds = torch.tensor([*LOOKS, LOOKS[-1]])[looks].double()
            error = f"{wrong / max(number, 1):.3f} ({low:.3f} to {high:.3f})"
            saved = f"{LOOKS[-1] - median(rounds):g}, {LOOKS[-1] - rounds.mean():.1f}"
            count = f"{number} of {len(looks)}"
            cells.append([str(share), name, str(factor), count, error, saved])
    chosen = {share: calibrated(known, share) for share in SHARES}
    header = ["epsilon", "pairs", "factor", "stops", "exceed epsilon", "rounds saved"]
    return f"{table(header, cells)}\nFactors by the other half: {chosen}"


def calibrated(rows: list[dict[str, Any]], share: float) -> float:
    r"""The smallest factor with which at most delta of the stops are wrong."""
    for factor in FACTORS:
        number, wrong, _ = stops(rows, share, factor)
        if wrong <= DELTA * number:
            return factor
    return float("inf")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, title in FILES.items():
        rows = read(Path(__file__).with_name(f"{name}.jsonl.gz"))
        print(f"### {title}\n\n{coverage(rows)}\n{summary(rows)}\n")


if __name__ == "__main__":
    main()
