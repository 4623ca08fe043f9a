r"""Writes the tables of this folder's README from what run.py has stored.

python -m studies.chance_constraints.report [--out results/chance_constraints] [--to FOLDER]
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from botorch_risk.experiments.constraint_summary import constraint_markdown
from botorch_risk.experiments.registry import get_experiment
from botorch_risk.experiments.store import ExperimentStore
from botorch_risk.experiments.summary import regret_curves
from reproduction.parts import report_parser, stores
from reproduction.tables import cell, paired, table
from studies.chance_constraints.run import NAMES, PARTS

OURS, REFERENCE = "confidence-bound", "qLogEI"
ROUNDS = (0, 5, 10, 15, 20, 25)


def joined(open_stores: list[ExperimentStore]) -> dict[str, Tensor]:
    r"""Simple regret of all seeds in order, `R x (T + 1)`, of the rounds that all have."""
    blocks: dict[str, list[Tensor]] = {}
    for store in open_stores:
        for label, curve in regret_curves(store).items():
            blocks.setdefault(label, []).append(curve.simple)
    last = min(block.shape[-1] for parts in blocks.values() for block in parts)
    return {label: torch.cat([b[:, :last] for b in parts]) for label, parts in blocks.items()}


def rows(regret: dict[str, Tensor]) -> list[list[str]]:
    shown = []
    for label, values in regret.items():
        rounds = [t for t in ROUNDS if t < values.shape[-1]]
        last = values[:, -1]
        compared = label != REFERENCE and REFERENCE in regret
        difference = paired(last, regret[REFERENCE][:, -1]) if compared else ""
        shown.append([label, str(len(values)), *(cell(values[:, t]) for t in rounds), difference])
    return shown


def main() -> None:
    r"""Writes tables.md."""
    arguments = report_parser(
        __doc__, "results/chance_constraints", Path(__file__).parent
    ).parse_args()
    page = []
    for name in NAMES:
        paths = stores(PARTS, arguments.out, name)
        if not paths:
            continue
        with ExitStack() as stack:
            opened = [stack.enter_context(ExperimentStore(path)) for path in paths]
            regret = joined(opened)
            last = next(iter(regret.values())).shape[-1] - 1
            header = ["strategy", "seeds"]
            header += [f"round {t}" for t in ROUNDS if t <= last]
            page += [
                f"### {name}\n",
                "The last recommendations:\n",
                constraint_markdown(opened, get_experiment(name)),
                f"Regret, an infeasible recommendation counted as the worst feasible decision; "
                f"the last column is round {last} less {REFERENCE}, paired by seed:\n",
                table([*header, f"less {REFERENCE}"], rows(regret)),
            ]
    (arguments.to / "tables.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
