r"""Writes the tables of this folder's README from what run.py has stored.

python -m bench.studies.ax_benchmark.report [--results results/ax_benchmark] [--to FOLDER]
"""

from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import median
from torch import Tensor

from bench.reproduction.results import report_parser
from bench.reproduction.tables import cell, paired, table
from bench.studies.ax_benchmark.problems import SETTINGS
from bench.studies.ax_benchmark.run import CHECKPOINTS, METHODS, OURS
from bench.studies.stored_rows import read

Rows = dict[tuple[str, str], list[dict[str, Any]]]


def by_method(rows: list[dict[str, Any]]) -> Rows:
    r"""The rows of each problem and method, over the seeds that all methods have, in order."""
    found: Rows = {}
    for name in SETTINGS:
        of_problem = [row for row in rows if row["problem"] == name]
        seeds = {m: {row["seed"] for row in of_problem if row["method"] == m} for m in METHODS}
        common = set.intersection(*seeds.values())
        for method in METHODS if common else ():
            chosen = [row for row in of_problem if row["method"] == method]
            found[name, method] = sorted(
                (row for row in chosen if row["seed"] in common), key=lambda row: row["seed"]
            )
    return found


def problem_table(found: Rows, name: str) -> str:
    r"""Regrets after some numbers of trials, differences at the end, and seconds."""
    header = ["method", *(f"after {trials}" for trials in CHECKPOINTS)]
    header += [f"at the end less {OURS}, paired", "what Ax recommends", "less, paired", "CPU s"]
    ours = _column(found[name, OURS], "regret")
    rows = []
    for method in METHODS:
        regret = _column(found[name, method], "regret")
        by_ax = _column(found[name, method], "regret_by_ax")
        rows.append(
            [
                method,
                *(cell(regret[:, column]) for column in range(len(CHECKPOINTS))),
                "" if method == OURS else paired(regret[:, -1], ours[:, -1]),
                cell(by_ax),
                paired(by_ax, ours[:, -1]),
                f"{median(_column(found[name, method], 'seconds')):.1f}",
            ]
        )
    return table(header, rows)


def page(found: Rows) -> str:
    r"""A table for each problem."""
    parts = []
    for name in SETTINGS:
        if (name, OURS) in found:
            parts += [f"### {name}: {len(found[name, OURS])} seeds\n", problem_table(found, name)]
    return "\n".join(parts)


def _column(rows: list[dict[str, Any]], name: str) -> Tensor:
    return torch.tensor([row[name] for row in rows], dtype=torch.double)


def main() -> None:
    arguments = report_parser(__doc__, "results/ax_benchmark", Path(__file__).parent).parse_args()
    found = by_method(read(arguments.results / "rows.jsonl"))
    (arguments.to / "tables.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
