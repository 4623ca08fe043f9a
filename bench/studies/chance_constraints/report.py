r"""Writes the tables of this folder's README from what its campaign has stored.

python -m bench.studies.chance_constraints.report
    [--results results/chance_constraints] [--to FOLDER]
"""

from pathlib import Path

from botorch_risk_bench.campaigns import ExperimentRecords
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.reports.constraint_summary import constraint_markdown
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import cell, paired, table
from bench.studies.chance_constraints.campaign import NAMES

OURS, REFERENCE = "confidence-bound", "qLogEI"
ROUNDS = (0, 5, 10, 15, 20, 25)


def simple_regret(records: list[ExperimentRecords]) -> dict[str, Tensor]:
    r"""Simple regret of all seeds, `R x (T + 1)`, of the rounds that all strategies have."""
    curves = {label: curve.simple for label, curve in regret_curves(*records).items()}
    last = min(curve.shape[-1] for curve in curves.values())
    return {label: curve[:, :last] for label, curve in curves.items()}


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
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    page = []
    for name in NAMES:
        with records_of(report.results, name) as records:
            if not records:
                continue
            regret = simple_regret(records)
            last = next(iter(regret.values())).shape[-1] - 1
            header = ["strategy", "seeds"]
            header += [f"round {t}" for t in ROUNDS if t <= last]
            page += [
                f"### {name}\n",
                "The last recommendations:\n",
                constraint_markdown(records, get_experiment(name)),
                f"Regret, an infeasible recommendation counted as the worst feasible decision; "
                f"the last column is round {last} less {REFERENCE}, paired by seed:\n",
                table([*header, f"less {REFERENCE}"], rows(regret)),
            ]
    report.write(page)


if __name__ == "__main__":
    main()
