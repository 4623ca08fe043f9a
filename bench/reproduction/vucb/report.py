r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

Sections of tables.md whose rounds are in no store stay as they are. The rounds of `arms.py` are in
the folder `arms` of the results; their curves are kept in `curves/`.

python -m bench.reproduction.vucb.report [--results results/vucb] [--to FOLDER]
"""

from pathlib import Path

from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import draw_band, draw_mean, finish, panels, seeds_of
from bench.reproduction.results import records_of, report_parser
from bench.reproduction.stored_curves import read_curves, write_curves
from bench.reproduction.tables import cell, paired, read_curves_by, table, write_sections
from bench.reproduction.vucb.arms import NUM_SEEDS
from bench.reproduction.vucb.campaign import CONTINUOUS, DISCRETE, PORTFOLIO

REFERENCE = "V-UCB-Prob"
SMALLEST = 1e-6  # of a regret, for its logarithm: the accuracy of the true optima
SHOWN = (10, 20, 30, 45, 60)
NUM_QUERIES = 60
WIDTHS = (
    "V-UCB-Prob",
    "V-UCB-Unif",
    "V-UCB-Prob-constant-width",
    "V-UCB-Unif-constant-width",
    "V-UCB-Prob-beta-as-width",
)
OTHERS = (
    "V-UCB-Prob-likelihood",
    "V-UCB-Prob-LNSO",
    "contextual-GP-UCB",
    "contextual-GP-UCB-constant-width",
)
OUTSIDE = ("rho-KG-apx", "qLogNEI-VaR")
FEW_SEEDS = ("var-hartmann12-continuous", "var-portfolio", "var-robot")
# At most five strong lines a panel, the baselines grey; the others are in the tables.
DRAWN = ("V-UCB-Prob", "V-UCB-Unif", "rho-KG-apx", "StableOpt", "contextual-GP-UCB", "random")
NOT_DRAWN = ("V-UCB-observed", "contextual-GP-UCB-constant-width", "V-UCB-Prob-likelihood")
SPELLED = {  # in legends
    "V-UCB-Prob-constant-width": "V-UCB-Prob, 3 deviations",
    "V-UCB-Unif-constant-width": "V-UCB-Unif, 3 deviations",
    "V-UCB-Prob-beta-as-width": "V-UCB-Prob, beta_t deviations",
}
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


def section(name: str, curves: dict[str, Tensor], heading: str) -> list[str]:
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
        f"### {name}: {heading}\n",
        table(header, final_rows(curves)),
        "log10 regret by query:\n",
        table(["query", *curves], by_round(curves)),
    ]


def draw_kept(page: str, names: tuple[str, ...], path: Path) -> None:
    r"""Problems whose rounds are lost, from the tables: at five numbers of queries."""
    figure, every = panels(len(names), columns=2)
    for axes, name in zip(every, names, strict=True):
        curves = read_curves_by(page, f"{name}: after", "query")
        queries, _ = curves.pop("")
        for label, (mean, half_width) in curves.items():
            if label in DRAWN:
                shown = f"{label}, 5 seeds" if label in OUTSIDE else label
                draw_band(axes, queries, mean, half_width, label, shown)
        axes.set(
            title=title_of(name) + (", 10 seeds" if name in FEW_SEEDS else ""),
            xlabel="queries after the initial design",
            xticks=queries.tolist(),
        )
    for axes in every[::2]:
        axes.set_ylabel("log10 regret of the report")
    seeds = "10 seeds" if {*names} <= {*FEW_SEEDS} else "30 seeds where nothing else is said"
    finish(figure, path, f"{seeds}, mean and {INTERVAL}")


def title_of(name: str) -> str:
    if name == PORTFOLIO:  # whose table is not at hand
        return "Portfolio (3, 2)"
    return get_experiment(name).description.partition(", value-at-risk")[0]


def draw(found: dict[str, dict[str, Tensor]], path: Path, title: str = "") -> None:
    r"""A panel for each problem, at most five strong lines."""
    figure, every = panels(len(found), columns=2)
    for axes, (name, curves) in zip(every, found.items(), strict=True):
        for label, regret in curves.items():
            if label not in NOT_DRAWN:
                draw_mean(axes, logarithm(regret), label, shown=SPELLED.get(label))
        axes.set(title=title_of(name), xlabel="queries after the initial design")
    for axes in every[::2]:
        axes.set_ylabel("log10 regret of the report")
    seeds = seeds_of(regret for curves in found.values() for regret in curves.values())
    finish(figure, path, f"{title}{seeds}")


def of_the_arms(results: Path, kept: Path, name: str) -> dict[str, Tensor]:
    r"""The curves of a problem from the store of the arms, or as an earlier report kept them."""
    path = kept / f"{name}.json.gz"
    whole = {label: each["simple"] for label, each in read_curves(path).items()}
    found = collected(results, name)
    whole |= {label: each for label, each in found.items() if each.shape[-1] > NUM_QUERIES}
    if whole:
        write_curves(path, {label: {"simple": regret} for label, regret in whole.items()})
    known = found | whole
    ordered = {label: known[label] for label in (*WIDTHS, *OTHERS, *OUTSIDE) if label in known}
    return ordered if REFERENCE in ordered else {}


def main() -> None:
    arguments = report_parser(__doc__, "results/vucb", Path(__file__).parent).parse_args()
    results, to = arguments.results, arguments.to
    page = []
    groups = {"figure_3": DISCRETE, "figure_4": CONTINUOUS, "figure_5": (PORTFOLIO, "var-robot")}
    for group, names in groups.items():
        found = {name: collected(results, name) for name in names}
        there = {name: curves for name, curves in found.items() if curves}
        for name, curves in there.items():
            last = curves[REFERENCE].shape[-1] - 1
            page += section(name, curves, f"after {last} queries")
        kept = (to / "tables.md").read_text("utf-8") if (to / "tables.md").exists() else ""
        if there:
            draw(there, to / group)
        elif all(f"### {name}: after" in kept for name in names):
            draw_kept(kept, names, to / group)
    arms = {"arms_finite": DISCRETE, "arms_continuous": CONTINUOUS}
    for group, names in arms.items():
        found = {name: of_the_arms(results / "arms", to / "curves", name) for name in names}
        there = {name: curves for name, curves in found.items() if curves}
        for name, curves in there.items():
            page += section(name, curves, f"widths, model and surrogate, {NUM_SEEDS} seeds")
        if there:
            draw(there, to / group)
    write_sections(to / "tables.md", page)


if __name__ == "__main__":
    main()
