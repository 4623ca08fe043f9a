r"""Writes the tables and pictures of this folder's README from what its campaign has stored.

python -m bench.studies.frontier.report [--results results/frontier] [--to FOLDER]
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.portfolio import NEUTRAL, RISK_AVERSIONS, label_of
from botorch_risk_bench.problems import PortfolioPolicy
from botorch_risk_bench.problems.portfolio_policy import HELD_OUT_YEARS, TRAINING_YEARS
from botorch_risk_bench.reports.demo import measured
from botorch_risk_bench.reports.frontier import mean_variance, plot_frontier, recommended
from botorch_risk_bench.reports.plots import save_png
from torch import Tensor

from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import cell, paired, table
from bench.studies.frontier import forest
from bench.studies.frontier.campaign import FOREST, PORTFOLIO
from botorch_risk.strategies.space import initial_design

PERIODS = {"training": TRAINING_YEARS, "held out": HELD_OUT_YEARS}
# Of the forests: configurations that show what is possible, and splits that nothing was chosen by.
NUM_CONFIGURATIONS, NUM_SPLITS, SPLITS_SEED = 32, 40, 2**20
Score = Callable[[Tensor], Tensor]


def rows(
    scores: dict[str, Tensor], risk_aversions: tuple[float, ...], unit: float
) -> list[list[str]]:
    r"""Mean, deviation, and what each risk aversion gains by its own measure, paired by seed.

    Args:
        scores: Mean and standard deviation of what each strategy recommends, `R x 2`.
        risk_aversions: Of the strategies.
        unit: What 1 of the scores is, in units of the outcome that the strategies saw.
    """
    found = []
    for risk_aversion in (0.0, *risk_aversions):
        label = label_of(risk_aversion)
        own, other = (
            mean_variance(unit * each, risk_aversion) for each in (scores[label], scores[NEUTRAL])
        )
        cells = [_cell(column) for column in scores[label].unbind(dim=-1)]
        gains = ["", "", ""]
        if risk_aversion:
            pairs = zip(scores[label].T, scores[NEUTRAL].T, strict=True)
            gains = [*(paired(*pair) for pair in pairs), paired(own, other)]
        found.append([label, str(len(own)), *cells, *gains])
    return found


HEADER = ["strategy", "seeds", "mean", "standard deviation", "mean, less neutral"]
HEADER += ["deviation, less neutral", "mean - aversion x variance, less neutral"]


def _cell(values: Tensor) -> str:
    r"""As `cell`, but without the rounding of a mean where all seeds recommend the same."""
    same = bool((values == values[0]).all())
    return f"{values[0]:.3g} ± 0" if same else cell(values)


def portfolio_page(store: ExperimentRecords, to: Path) -> list[str]:
    r"""The table of each period, and the picture of the later one."""
    reported, page = recommended(store, list(PORTFOLIO.strategies)), []
    for name, years in PERIODS.items():
        problem = PortfolioPolicy(years=years)
        scores = {label: measured(problem, X) for label, X in reported.items()}
        page += [
            f"### {PORTFOLIO.name}: {name}, {years[0]} to {years[1]}\n",
            "Mean and standard deviation of the return of a year in %, over all "
            f"{problem.num_windows} years of 52 weeks.\n",
            table(HEADER, rows(scores, RISK_AVERSIONS, unit=0.01)),
        ]
    figure = plot_frontier(
        measured(problem, problem.policies(8)),
        named(scores),
        xlabel="risk: standard deviation of a year's return, %",
        ylabel="mean of a year's return, %",
        title=f"{len(reported[NEUTRAL])} seeds, measured on {years[0]} to {years[1]}",
    )
    save_png(figure, to / f"{PORTFOLIO.name}.png")
    return page


def forest_page(store: ExperimentRecords, to: Path, path: Path) -> list[str]:
    r"""The table and the picture of the forest, on fresh splits."""
    reported = {
        label: X.round() for label, X in recommended(store, list(FOREST.strategies)).items()
    }
    problem = forest.imbalanced_forest()
    every = initial_design(problem.bounds, [0], NUM_CONFIGURATIONS)[0].round()
    known = scores_of(
        torch.cat([*reported.values(), every]),
        path,
        lambda x: torch.stack(problem.reference_values(x, NUM_SPLITS, SPLITS_SEED)),
    )
    scores = {label: known(X) for label, X in reported.items()}
    possible = torch.cat([known(every), *scores.values()])
    figure = plot_frontier(
        possible,
        named(scores, digits=3),
        xlabel="risk: standard deviation of the balanced accuracy",
        ylabel="mean of the balanced accuracy",
        title=f"Random forest, 6 % positives, measured on {NUM_SPLITS} fresh splits",
    )
    save_png(figure, to / f"{FOREST.name}.png")
    return [
        f"### {FOREST.name}\n",
        f"Balanced accuracy on {NUM_SPLITS} fresh splits, the same for all configurations.\n",
        table(HEADER, rows(scores, forest.RISK_AVERSIONS, unit=1.0)),
    ]


def scores_of(X: Tensor, path: Path, score: Score) -> Score:
    r"""Measures configurations that the file does not have, one by one; looks all up in it."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for x in X.unique(dim=0):
        if key(x) not in known:
            known[key(x)] = score(x).tolist()
            write_text(path, json.dumps(known))
    return lambda rows: torch.tensor([known[key(x)] for x in rows], dtype=torch.double)


def key(x: Tensor) -> str:
    r"""A configuration of whole numbers as text."""
    return ", ".join(f"{each:.0f}" for each in x.tolist())


def named(scores: dict[str, Tensor], digits: int = 0) -> dict[str, Tensor]:
    r"""Labels with the mean and the deviation of each group."""
    return {
        f"{label}: {each[:, 0].mean():.{digits}f} ± {each[:, 1].mean():.{digits}f}": each
        for label, each in scores.items()
    }


def with_all(
    found: list[ExperimentRecords], definition: ExperimentDefinition
) -> list[ExperimentRecords]:
    r"""The series in which every strategy has begun, so that it can be compared."""
    return [each for each in found if {*definition.strategies} <= {*each.labels()}]


def main() -> None:
    r"""Writes tables.md and a picture for each experiment that has run."""
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    page: list[str] = []
    with records_of(report.results, PORTFOLIO.name) as found:
        for records in with_all(found, PORTFOLIO):
            page += portfolio_page(records, report.to)
    with records_of(report.results, FOREST.name) as found:
        for records in with_all(found, FOREST):
            scores = report.results / "forest_scores.json"
            page += forest_page(records, report.to, scores)
    report.write(page)


if __name__ == "__main__":
    main()
