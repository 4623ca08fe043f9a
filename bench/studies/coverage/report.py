r"""Print the tables of this folder's README from the looks that are stored next to it.

    python -m bench.studies.coverage.report [--pack FOLDER]

`--pack` first collects the files of `looks` into `looks.jsonl.gz`.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor
from torch.quasirandom import SobolEngine

from bench.reproduction.tables import table
from bench.studies.coverage.looks import DEVELOPMENT, LEVELS, LOOKS, MODES
from bench.studies.stored_rows import rows_of_arguments
from botorch_risk.test_functions import CertifiedProblem

STORED = Path(__file__).with_name("looks.jsonl.gz")
QUANTITIES = ("f", "risk", "recommended", "gap")
NEEDLE, NEAR = 0.01, 0.3  # of the box, and of the range of the risk
Row = dict[str, Any]


def by_pair(rows: Sequence[Row], name: str) -> Tensor:
    r"""A quantity of each pair and seed, `rows x seeds`."""
    return torch.tensor([row[name] for row in rows], dtype=torch.double)


def mean_and_half_widths(values: Tensor) -> str:
    r"""The mean of `rows x seeds`, with 95 % half-widths over seeds and over rows."""
    halves = [half_width(values.mean(dim=dim)) for dim in (0, 1)]
    return f"{values.mean():.2f} ± {halves[0]:.2f}, {halves[1]:.2f}"


def share_and_half_widths(part: Tensor, whole: Tensor, digits: int = 2) -> str:
    r"""The ratio of two sums over `rows x seeds`, with 95 % half-widths over seeds and over rows.

    They are of a linear approximation of the ratio, so that a seed without any may count.
    """
    ratio = part.sum() / whole.sum()
    excess = part - ratio * whole
    halves = [half_width(excess.sum(dim=d) / whole.sum(dim=d).mean()) for d in (0, 1)]
    return " ± ".join([f"{ratio:.{digits}f}", ", ".join(f"{each:.{digits}f}" for each in halves)])


def half_width(values: Tensor) -> float:
    count = len(values)
    if count < 2:
        return math.nan
    return float(student.ppf(0.975, count - 1) * values.std() / math.sqrt(count))


@cache
def is_needle(form: str, risk: str) -> bool:
    r"""Whether less than 1 % of the box is within 0.3 of the range of the risk of the best."""
    problem = CertifiedProblem(form, risk)
    X = SobolEngine(problem.num_decision, scramble=False).draw(2**11).double()
    values = problem.objective(X)
    near = problem.optimal_risk - NEAR * (problem.optimal_risk - values.min())
    return bool((values >= near).double().mean() < NEEDLE)


def chosen(rows: Sequence[Row], **names: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in names.items())]


def with_quantity(rows: Sequence[Row], quantity: str) -> list[Row]:
    r"""The looks that have a quantity; those at MMD balls have f alone."""
    return [row for row in rows if f"{quantity} {LEVELS[-1]}" in row]


def of_looks(rows: Sequence[Row]) -> str:
    r"""Stated against contained, by mode, round and belief."""
    cells = []
    for mode in MODES:
        for t in LOOKS:
            for belief in ("fitted", "sampled"):
                some = chosen(rows, mode=mode, round=t, belief=belief)
                counts = dict.fromkeys(str(len(with_quantity(some, q))) for q in QUANTITIES)
                cells.append([mode, str(t), belief, ", ".join(counts)])
                for quantity in QUANTITIES:
                    part = with_quantity(some, quantity)
                    shares = [by_pair(part, f"{quantity} {level}").mean() for level in LEVELS[:2]]
                    first = " ".join(f"{each:.2f}" for each in shares)
                    last = mean_and_half_widths(by_pair(part, f"{quantity} {LEVELS[2]}"))
                    cells[-1].append(f"{first} **{last}**")
    return table(["w", "round", "belief", "pairs", *QUANTITIES], cells)


def of_families(rows: Sequence[Row]) -> str:
    r"""Contained at 95 % by risk."""
    cells = []
    for risk in dict.fromkeys(row["risk"] for row in rows):
        for belief in ("fitted", "sampled"):
            some = chosen(rows, risk=risk, belief=belief)
            parts = {q: with_quantity(some, q) for q in QUANTITIES}
            values = [
                mean_and_half_widths(by_pair(part, f"{q} 0.95")) if part else "not tested"
                for q, part in parts.items()
            ]
            cells.append([risk, belief, str(len(some)), *values])
    return table(["risk", "belief", "looks", *QUANTITIES], cells)


def of_accuracy(rows: Sequence[Row]) -> str:
    r"""Sampled less fitted on the same readings, and the pairs with the better score."""
    cells = []
    for mode in MODES:
        for t in LOOKS:
            pairs = [chosen(rows, mode=mode, round=t, belief=b) for b in ("sampled", "fitted")]

            def less(of: Callable[[list[Row]], Tensor], both: list[list[Row]] = pairs) -> Tensor:
                return of(both[0]) - of(both[1])

            if not pairs[0]:
                continue
            rmse = less(lambda some: by_pair(some, "rmse").log10())
            nlpd = less(lambda some: by_pair(some, "nlpd"))
            scores = [
                less(lambda some, q=q: by_pair(with_quantity(some, q), f"{q} score"))
                for q in QUANTITIES[:3]
            ]
            ratio = [f"{int((each.mean(dim=-1) < 0).sum())} of {len(each)}" for each in scores]
            cells.append([mode, str(t), mean_and_half_widths(rmse), mean_and_half_widths(nlpd)])
            cells[-1] += ratio
    header = ["w", "round", "log10 RMSE of f", "NLPD of f"]
    return table([*header, *(f"score of {each} better" for each in QUANTITIES[:3])], cells)


def of_pairs(rows: Sequence[Row]) -> str:
    r"""The pairs over all their looks: how many are below or above, and the lowest."""
    cells = []
    for quantity in QUANTITIES:
        means: dict[str, float] = {}
        for row in with_quantity(chosen(rows, belief="sampled"), quantity):
            name = f"{row['form']} {row['risk']}"
            held = sum(row[f"{quantity} 0.95"]) / len(row[f"{quantity} 0.95"])
            looks = len(chosen(rows, belief="sampled", form=row["form"], risk=row["risk"]))
            means[name] = means.get(name, 0.0) + held / looks
        lowest = sorted(means, key=lambda name: means[name])[:3]
        low = "; ".join(f"{name} {means[name]:.2f}" for name in lowest)
        below = sum(value < 0.75 for value in means.values())
        cells.append([quantity, str(len(means)), str(below), low])
    return table(["quantity", "pairs", "below .75", "lowest"], cells)


def without_needles(rows: Sequence[Row]) -> str:
    r"""The gap at 95 % where the best is no needle."""
    cells = []
    for belief in ("fitted", "sampled"):
        some = with_quantity(chosen(rows, belief=belief), "gap")
        for name, is_one in (("needles", True), ("others", False)):
            part = [row for row in some if is_needle(row["form"], row["risk"]) == is_one]
            if part:
                held = mean_and_half_widths(by_pair(part, "gap 0.95"))
                cells.append([belief, name, str(len(part)), held])
    return table(["belief", "pairs", "looks", "gap"], cells)


def main() -> None:
    every = rows_of_arguments(__doc__, STORED)
    for title, is_development in (("Judged", False), ("Development", True)):
        rows = [row for row in every if (row["form"] in DEVELOPMENT) == is_development]
        if not rows:
            continue
        print(f"### {title}\n")
        for part in (of_looks, of_accuracy, of_families, of_pairs, without_needles):
            print(f"{part.__doc__}\n\n{part(rows)}")


if __name__ == "__main__":
    main()
