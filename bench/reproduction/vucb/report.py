r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

The curves are kept in `curves/`: a series whose rounds are in no store is read from there. The
section of a problem stays as it is while one of our methods is missing, and a picture while one of
its methods is.

python -m bench.reproduction.vucb.report [--results results/vucb] [--to FOLDER]
"""

from pathlib import Path

from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import draw_mean, finish, panels
from bench.reproduction.results import Report, records_of
from bench.reproduction.stored_curves import with_kept
from bench.reproduction.tables import cell, comparisons, paired, table
from bench.reproduction.vucb.budgets import LARGER, SETTING
from bench.reproduction.vucb.campaign import (
    CONTINUOUS,
    DISCRETE,
    LIKELIHOOD,
    LNSO,
    OF_CONTINUOUS,
    ONE_W,
    OURS,
    OUTSIDE,
    PORTFOLIO,
    ROBOT,
    WIDTHS,
)

REFERENCE = "V-UCB-Prob"
SMALLEST = 1e-6  # of a regret, for its logarithm: the accuracy of the true optima
SHOWN = (10, 20, 30, 45, 60)
NUM_QUERIES = 60
LABELS = (*OURS, *WIDTHS, *OF_CONTINUOUS, LNSO, *OUTSIDE, LARGER)
# At most five strong lines a panel, the baselines grey; the others are in the tables.
DRAWN = ("V-UCB-Prob", "V-UCB-Unif", "rho-KG-apx", "StableOpt", "contextual-GP-UCB", "random")
PICTURES = {
    "figure_3": (DISCRETE, DRAWN),
    "figure_4": (CONTINUOUS, DRAWN),
    "figure_5": ((PORTFOLIO, ROBOT), DRAWN),
    "arms_finite": (DISCRETE, ("V-UCB-Prob", "V-UCB-Unif", *WIDTHS[:2], LIKELIHOOD)),
    "arms_continuous": (ONE_W, ("V-UCB-Prob", *OF_CONTINUOUS, LNSO)),
}
COMPARED = {  # in log10 regret: the first minus the second
    "finite W": (
        DISCRETE,
        (
            ("V-UCB-Unif", "V-UCB-Prob"),
            ("V-UCB-Unif-constant-width", "V-UCB-Prob-constant-width"),
            ("V-UCB-Prob-constant-width", "V-UCB-Prob"),
            ("V-UCB-Unif-constant-width", "V-UCB-Unif"),
            ("contextual-GP-UCB-constant-width", "V-UCB-Prob-constant-width"),
            ("contextual-GP-UCB-constant-width", "contextual-GP-UCB"),
            (LIKELIHOOD, "V-UCB-Prob"),
            ("rho-KG-apx", "V-UCB-Unif"),
            ("rho-KG-apx", "V-UCB-Prob"),
        ),
    ),
    "continuous W": (ONE_W, tuple((each, REFERENCE) for each in (*OF_CONTINUOUS, LNSO))),
    "Figs. 4 and 5": (
        (*CONTINUOUS, PORTFOLIO, ROBOT),
        (("rho-KG-apx", "V-UCB-Prob"), ("rho-KG-apx", "V-UCB-Unif"), ("V-UCB-Unif", "V-UCB-Prob")),
    ),
}
SPELLED = {  # in legends
    "V-UCB-Prob-constant-width": "V-UCB-Prob, 3 deviations",
    "V-UCB-Unif-constant-width": "V-UCB-Unif, 3 deviations",
    "V-UCB-Prob-beta-as-width": "V-UCB-Prob, beta_t deviations",
    LIKELIHOOD: "V-UCB-Prob, likelihood in every third round",
    LNSO: "V-UCB-Prob, LNSO with 10 draws of w",
}
SEARCHED = {ROBOT: -0.445996}  # by robot_optimum.py


def logarithm(regret: Tensor) -> Tensor:
    return regret.clamp_min(SMALLEST).log10()


def collected(results: Path, kept: Path, name: str, setting: str = "default") -> dict[str, Tensor]:
    r"""Regret of the reports `R x (T + 1)` of all strategies of a problem that are through.

    From the stores of the campaigns, else from the curves that an earlier report kept.
    """
    with records_of(results, name, setting) as records:
        found = regret_curves(*records, optimum=SEARCHED.get(name)) if records else {}
    path = kept / f"{name}{'-budget' if setting == SETTING else ''}.json.gz"
    reached = max((each.num_rounds for each in found.values()), default=0)
    last = NUM_QUERIES if path.exists() else reached
    played = {
        label: {"simple": each.simple} for label, each in found.items() if each.num_rounds >= last
    }
    curves = with_kept(path, played)
    return {label: curves[label]["simple"] for label in LABELS if label in curves}


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


def by_query(curves: dict[str, Tensor]) -> list[list[str]]:
    return [
        [str(t), *(cell(logarithm(regret[:, t])) for regret in curves.values())]
        for t in SHOWN
        if t < curves[REFERENCE].shape[-1]
    ]


def section(name: str, curves: dict[str, Tensor]) -> list[str]:
    header = [
        "strategy",
        "seeds",
        "regret",
        f"minus {REFERENCE}, paired",
        "log10 regret",
        "first ten seeds",
        f"minus {REFERENCE}, paired",
    ]
    return [
        f"### {name}: after {curves[REFERENCE].shape[-1] - 1} queries\n",
        table(header, final_rows(curves)),
        "log10 regret by query:\n",
        table(["query", *curves], by_query(curves)),
    ]


def compared(found: dict[str, dict[str, Tensor]], t: int) -> list[str]:
    r"""Two methods at a time, after t queries."""
    page = []
    for kind, (names, pairs) in COMPARED.items():
        there = {
            title_of(name): {
                label: logarithm(regret[:, t])
                for label, regret in found[name].items()
                if t < regret.shape[-1]
            }
            for name in names
        }
        if differences := comparisons(there, pairs):
            page += [f"### log10 regret after {t} queries, {kind}\n", differences]
    return page


def of_budgets(results: Path, kept: Path) -> list[str]:
    r"""What a larger budget of rho-KG-apx changes: the methods by query, and their differences."""
    page = []
    for name in DISCRETE:
        curves = collected(results, kept, name, SETTING)
        if LARGER not in curves:
            continue
        rows = [[label, str(len(regret))] for label, regret in curves.items()]
        for row, regret in zip(rows, curves.values(), strict=True):
            row += [cell(logarithm(regret[:, t])) for t in SHOWN]
            same = row[0] == LARGER
            ends = logarithm(regret[:, -1]), logarithm(curves[LARGER][:, -1])
            row.append("" if same else paired(*ends))
        header = ["strategy", "seeds", *(f"query {t}" for t in SHOWN), f"minus {LARGER}, paired"]
        page += [f"### {name}: log10 regret, a larger budget\n", table(header, rows)]
    return page


def title_of(name: str) -> str:
    if name == PORTFOLIO:  # whose table is not at hand
        return "Portfolio (3, 2)"
    return get_experiment(name).description.partition(", value-at-risk")[0]


def draw(found: dict[str, dict[str, Tensor]], path: Path) -> None:
    r"""A panel for each problem, with the same methods and the numbers of their seeds."""
    figure, every = panels(len(found), columns=2)
    for axes, (name, curves) in zip(every, found.items(), strict=True):
        for label, regret in curves.items():
            shown = SPELLED.get(label, label) if axes is every[0] else "_"
            draw_mean(axes, logarithm(regret), label, shown=shown)
        queries = f"queries after the initial design ({numbers_of_seeds(curves)})"
        axes.set(title=title_of(name), xlabel=queries)
    for axes in every[::2]:
        axes.set_ylabel("log10 regret of the report")
    finish(figure, path, f"Mean and {INTERVAL}")


def numbers_of_seeds(curves: dict[str, Tensor]) -> str:
    r"""The number of most methods, then the method that has fewer."""
    most = max(map(len, curves.values()))
    fewer = {label: len(regret) for label, regret in curves.items() if len(regret) < most}
    names = [f"; {label.removeprefix(f'{REFERENCE}-')} {n}" for label, n in fewer.items()]
    return f"{most} seeds{''.join(names)}"


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    results, to = report.results, report.to
    problems = (*DISCRETE, *CONTINUOUS, PORTFOLIO, ROBOT)
    found = {name: collected(results, to / "curves", name) for name in problems}
    whole = [name for name, curves in found.items() if {*OURS} <= {*curves}]
    page = [part for name in whole for part in section(name, found[name])]
    for t in (NUM_QUERIES // 2, NUM_QUERIES):
        page += compared(found, t)
    page += of_budgets(results, to / "curves")
    report.write(page)
    for picture, (names, labels) in PICTURES.items():
        there = {
            name: {label: each for label, each in found[name].items() if label in labels}
            for name in names
            if {*labels} <= {*found[name]}
        }
        if there:
            draw(there, to / picture)


if __name__ == "__main__":
    main()
