r"""Writes the tables and the picture of this folder's README from what its campaign has stored.

python -m bench.studies.two_objectives.report [--results results/two_objectives] [--to FOLDER]
"""

from pathlib import Path

from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.reports.plots import plot_regret, save_png
from botorch_risk_bench.reports.summary import regret_curves
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import cell, paired, table
from bench.studies.two_objectives.campaign import NAME, NUM_ROUNDS

OURS, REFERENCE = "Pareto-search", "qLogNEHVI-CVaR"
MARGIN = 0.01  # of the largest hypervolume
ROUNDS = (0, 5, 10, 20, 30, NUM_ROUNDS)


def hypervolumes(store: ExperimentRecords) -> dict[str, Tensor]:
    r"""After the initial design and each round, `R x (T + 1)`."""
    best = store.identity["optimal_value"]
    return {label: best - curve.simple for label, curve in regret_curves(store).items()}


def final_rows(reached: dict[str, Tensor], last: int) -> list[list[str]]:
    rows = []
    for label, values in reached.items():
        final = values[:, last]
        difference = "" if label == REFERENCE else paired(final, reached[REFERENCE][:, last])
        rows.append([label, str(len(values)), cell(final), difference])
    return rows


def by_round(reached: dict[str, Tensor], last: int) -> list[list[str]]:
    return [
        [str(t), *(cell(values[:, t]) for values in reached.values())] for t in ROUNDS if t <= last
    ]


def verdict(ours: Tensor, theirs: Tensor, best: float) -> str:
    r"""By the rule of the README."""
    gain = paired_difference(ours, theirs)
    low, high = (gain.mean - gain.half_width).item(), (gain.mean + gain.half_width).item()
    found = "undecided"
    if low > -MARGIN * best:
        found = "no worse, by the margin"
    if high < 0:
        found = "worse" + (", by less than the margin" if low > -MARGIN * best else "")
    if low > 0:
        found = "better"
    share = f"{100 * low / best:.2f} % to {100 * high / best:.2f} % of the largest hypervolume"
    return f"{OURS} against {REFERENCE}: {found} ({share}).\n"


def picture(reached: dict[str, Tensor], best: float) -> Figure:
    regret = {label: best - values for label, values in reached.items()}
    ylabel = "hypervolume short of the largest"
    return plot_regret(regret, ylabel, log_scale=True, title=f"{NAME}, mean and 95 % interval")


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    page: list[str] = []
    with records_of(report.results, NAME) as found:
        for store in found:
            reached, best = hypervolumes(store), store.identity["optimal_value"]
            last = min(values.shape[-1] for values in reached.values()) - 1
            header = ["strategy", "seeds", "hypervolume", f"minus {REFERENCE}, paired"]
            page += [f"### {NAME}: {last} rounds, the largest hypervolume is {best:.4f}\n"]
            if REFERENCE in reached:
                page.append(table(header, final_rows(reached, last)))
                if OURS in reached:
                    page.append(verdict(reached[OURS][:, last], reached[REFERENCE][:, last], best))
            page += ["Hypervolume by round:\n", table(["round", *reached], by_round(reached, last))]
            save_png(picture(reached, best), report.to / f"{NAME}.png", dpi=110)
    report.write(page)


if __name__ == "__main__":
    main()
