r"""Print the tables of this folder's README from the rows that are stored next to it.

    python -m bench.studies.biased_lengthscales.report [--pack FOLDER]

`--pack` first collects the files of `loops` into `rows.jsonl.gz`.
"""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import binomial_interval
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies.biased_lengthscales.loops import TRUTHS
from bench.studies.coverage.report import mean_and_half_widths
from bench.studies.stored_rows import rows_of_arguments

STORED = Path(__file__).with_name("rows.jsonl.gz")
ESTIMATES = {
    "point": "point estimate, BoTorch's default",
    "random": "the same, some readings random",
    "sampled": "samples of the hyperparameters",
    "pseudo": "pseudo-data (UHE-BO)",
}
HOLDS, HOLDS_WELL = 0.9, 0.93  # of the box, by 95 % intervals
Row = dict[str, Any]


def of(row: Row, estimate: str, name: str) -> Tensor:
    return torch.tensor(row[estimate][name], dtype=torch.double)


def pooled(values: Iterable[Tensor]) -> str:
    r"""The mean of the loops of each function, with 95 % half-widths over seeds and functions."""
    return mean_and_half_widths(torch.stack(list(values)))


def bias(row: Row, estimate: str) -> Tensor:
    r"""The mean logarithm of estimated over true lengthscales, by loop."""
    (truth,) = [each for each in TRUTHS if each.name == row["truth"]]
    return (of(row, estimate, "lengthscale") / torch.tensor(truth.lengthscales)).log().mean(dim=-1)


def of_estimates(rows: list[Row]) -> str:
    r"""What intervals of f hold of the box, and how far off the mean is.

    Differences are from the point estimate; below 0 an estimate is better.
    """
    drawn = [row for row in rows if next(t for t in TRUTHS if t.name == row["truth"]).lengthscales]
    cells = []
    for name, title in ESTIMATES.items():
        held = [of(row, name, "held") for row in rows]
        holding = int((torch.cat(held) >= HOLDS).sum())
        cells.append([title, pooled(held), share(holding, len(torch.cat(held))), "", "", ""])
        if name != "point":
            errors = ((of(row, name, "rmse"), of(row, "point", "rmse")) for row in rows)
            cells[-1][3] = pooled((ours / theirs).log10() for ours, theirs in errors)
            cells[-1][4] = pooled(of(row, name, "nlpd") - of(row, "point", "nlpd") for row in rows)
        if name != "sampled":
            cells[-1][5] = pooled(bias(row, name) for row in drawn)
    header = ["estimate", "held of the box", "loops that hold .90", "log10 RMSE", "NLPD"]
    return table([*header, "log lengthscale less the true one"], cells)


def of_functions(rows: list[Row]) -> str:
    r"""The same share of the box by function, the mean over 25 loops."""
    cells = [
        [row["truth"], *(f"{of(row, name, 'held').mean():.2f}" for name in ESTIMATES)]
        for row in rows
    ]
    return table(["function", *ESTIMATES.values()], cells)


def of_verdicts(rows: list[Row]) -> str:
    r"""The verdicts on point estimates, and how many of each hold .90 of the box."""
    cells = []
    for name in ("point", "random"):
        held = torch.cat([of(row, name, "held") for row in rows])
        for key, looks in (("verdict of rows", "without"), ("verdict", "with")):
            kinds = [kind for row in rows for kind in row[name][key]]
            for kind in ("trusted", "not looked", "distrusted"):
                of_kind = torch.tensor([each == kind for each in kinds])
                number, holding = int(of_kind.sum()), int((of_kind & (held >= HOLDS)).sum())
                well = int((of_kind & (held >= HOLDS_WELL)).sum())
                cell = share(holding, number) if number else "-"
                cells.append([ESTIMATES[name], looks, kind, str(number), cell, str(well)])
    header = ["estimate", "`bounds`", "verdict", "loops", "hold .90", "hold .93, number"]
    return table(header, cells)


def of_factors(rows: list[Row]) -> str:
    r"""What `BoxCheck` states of the point estimates, and what is so."""
    cells = []
    for name in ("point", "random"):
        held = torch.cat([of(row, name, "held") for row in rows])
        stated = {
            key: torch.cat([of(row, name, key) for row in rows])
            for key in ("expected", "probability", "factor", "widened")
        }
        widened = int((stated["widened"] >= HOLDS).sum())
        cells.append(
            [
                ESTIMATES[name],
                f"{stated['expected'].mean():.2f}, {held.mean():.2f}",
                f"{stated['probability'].mean():.2f}, {(held >= HOLDS).double().mean():.2f}",
                f"{stated['factor'].median():.2f}",
                f"0.95, {share(widened, len(held))}",
            ]
        )
    header = ["estimate", "expected share, held", "probability of .90, share that do", "factor"]
    return table([*header, "hold .90 if widened: stated, do"], cells)


def share(number: int, of_all: int) -> str:
    low, high = binomial_interval(number, of_all)
    return f"{number / of_all:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    rows = rows_of_arguments(__doc__, STORED)
    for part in (of_estimates, of_functions, of_verdicts, of_factors):
        print(f"{inspect.getdoc(part)}\n\n{part(rows)}")


if __name__ == "__main__":
    main()
