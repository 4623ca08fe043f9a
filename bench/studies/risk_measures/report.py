r"""Writes the tables of this folder's README from what its campaign has stored.

python -m bench.studies.risk_measures.report [--results results/risk_measures] [--to FOLDER]
"""

from pathlib import Path

from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import cell, paired, table
from bench.studies.risk_measures.experiments import EXPERIMENTS, NUM_ROUNDS

REFERENCE = "qLogNEI-robust"
ROUNDS = (0, 10, 20, NUM_ROUNDS)


def rows(regret: dict[str, Tensor]) -> list[list[str]]:
    shown = []
    for label, values in regret.items():
        reached = [cell(values[:, t]) if t < values.shape[-1] else "" for t in ROUNDS]
        complete = values.shape[-1] > NUM_ROUNDS and REFERENCE in regret
        complete = complete and regret[REFERENCE].shape[-1] > NUM_ROUNDS and label != REFERENCE
        difference = (
            paired(values[:, NUM_ROUNDS], regret[REFERENCE][:, NUM_ROUNDS]) if complete else ""
        )
        shown.append([label, str(len(values)), *reached, difference])
    return shown


def main() -> None:
    r"""Writes tables.md."""
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    page = []
    for definition in EXPERIMENTS:
        with records_of(report.results, definition.name) as records:
            if not records:
                continue
            regret = {label: curve.simple for label, curve in regret_curves(*records).items()}
            header = ["strategy", "seeds", *(f"round {t}" for t in ROUNDS), f"less {REFERENCE}"]
            title = f"### {definition.name}: {definition.description} {definition.objective}\n"
            page += [title, table(header, rows(regret))]
    report.write(page)


if __name__ == "__main__":
    main()
