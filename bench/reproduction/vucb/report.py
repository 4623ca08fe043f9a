r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

python -m bench.reproduction.vucb.report [--results results/vucb] [--to FOLDER]
"""

from pathlib import Path

from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import draw_mean, finish, panels, seeds_of
from bench.reproduction.results import records_of, report_parser
from bench.reproduction.tables import cell, paired, table
from bench.reproduction.vucb.campaign import CONTINUOUS, DISCRETE, PORTFOLIO

REFERENCE = "V-UCB-Prob"
SMALLEST = 1e-6  # of a regret, for its logarithm: the accuracy of the true optima
SHOWN = (10, 20, 30, 45, 60)
SEARCHED = {"var-robot": -0.445996}  # by robot_optimum.py


def logarithm(regret: Tensor) -> Tensor:
    return regret.clamp_min(SMALLEST).log10()


def collected(results: Path, name: str) -> dict[str, Tensor]:
    r"""Regret of the reports of all strategies of a problem that are through; none if not begun."""
    with records_of(results, name) as records:
        if not records:
            return {}
        found = regret_curves(*records, optimum=SEARCHED.get(name))
        curves = {label: curve.simple for label, curve in found.items()}
    longest = max(regret.shape[-1] for regret in curves.values())
    return {label: regret for label, regret in curves.items() if regret.shape[-1] == longest}


def final_rows(curves: dict[str, Tensor]) -> list[list[str]]:
    theirs, rows = curves[REFERENCE][:, -1], []
    for label, regret in curves.items():
        ours = regret[:, -1]
        same = label == REFERENCE
        rows.append(
            [
                label,
                str(len(regret)),
                cell(ours),
                "" if same else paired(ours, theirs),
                cell(logarithm(ours)),
                cell(logarithm(ours[:10])),
                "" if same else paired(logarithm(ours), logarithm(theirs)),
            ]
        )
    return rows


def by_round(curves: dict[str, Tensor]) -> list[list[str]]:
    return [
        [str(t), *(cell(logarithm(regret[:, t])) for regret in curves.values())]
        for t in SHOWN
        if t < curves[REFERENCE].shape[-1]
    ]


def main() -> None:
    arguments = report_parser(__doc__, "results/vucb", Path(__file__).parent).parse_args()
    results, to = arguments.results, arguments.to
    page = []
    groups = {"figure_3": DISCRETE, "figure_4": CONTINUOUS, "figure_5": (PORTFOLIO, "var-robot")}
    for group, names in groups.items():
        found = {name: collected(results, name) for name in names}
        there = {name: curves for name, curves in found.items() if curves}
        if not there:
            continue
        figure, every = panels(len(there), columns=2)
        for axes, (name, curves) in zip(every, there.items(), strict=True):
            header = [
                "strategy",
                "seeds",
                "regret",
                f"minus {REFERENCE}, paired",
                "log10 regret",
                "first ten seeds",
                f"minus {REFERENCE}, paired",
            ]
            last = curves[REFERENCE].shape[-1] - 1
            page += [f"### {name}: after {last} queries\n", table(header, final_rows(curves))]
            page += ["log10 regret by query:\n", table(["query", *curves], by_round(curves))]
            for label, regret in curves.items():
                draw_mean(axes, logarithm(regret), label)
            title = get_experiment(name).description.partition(", value-at-risk")[0]
            axes.set(title=title, xlabel="queries after the initial design")
        for axes in every[::2]:
            axes.set_ylabel("log10 regret of the report")
        finish(figure, to / group, seeds_of(each for c in there.values() for each in c.values()))
    (to / "tables.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
