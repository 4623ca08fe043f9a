r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

python -m bench.reproduction.truvar.report [--results results/truvar] [--to FOLDER]
"""

import warnings
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.experiments.papers.truvar import LEVELS, svm
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL, classify_by_confidence, mean_and_standard_error
from botorch_risk_bench.reports.level_sets import (
    LevelSetCurves,
    common_costs,
    level_set_curves,
    score_at_cost,
)
from botorch_risk_bench.reports.plots import plot_classes, save_png
from botorch_risk_bench.reports.replay import replay
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.pictures import LOOKS, draw_mean, finish, panels
from bench.reproduction.results import records_of, report_parser
from bench.reproduction.tables import cell, paired, table
from botorch_risk.acquisition import LevelSet

TITLES = {
    "coast": "a coast, unit cost",
    "coast-travel": "a coast, travel to pay",
    "noise-levels": "three noise levels",
}
REFERENCE = "TRUVAR"
SMALLEST = 1e-4  # regret below it, 0 where the best point of the grid is found, is drawn as it
TRIMMED = 0.05
CONFIDENCE = 9.0  # of the classes in the pictures: mean +- 3 standard deviations


def begun(results: Path, name: str) -> Iterable[tuple[ExperimentRecords, list[str]]]:
    r"""The rounds of an experiment, series by series, with the strategies that have begun."""
    with records_of(results, name) as found:
        for records in found:
            yield records, [label for label in records.labels() if len(records.rounds(label)) > 1]


def draw_f1(axes: Any, every: dict[str, LevelSetCurves], xlabel: str) -> None:
    costs = common_costs(every, 200)
    for label, curves in every.items():
        draw_mean(axes, score_at_cost(curves, costs), label, x=costs)
    axes.set(xlabel=xlabel, ylabel="F1 score")


def level_set_rows(every: dict[str, LevelSetCurves]) -> list[list[str]]:
    r"""F1 at a quarter, a half, and all of the common cost, with paired differences at the end."""
    costs = common_costs(every, 5)[[1, 2, 4]]
    final = {label: score_at_cost(curves, costs) for label, curves in every.items()}
    return [
        [
            label,
            str(len(scores)),
            *(cell(score) for score in scores.T),
            "" if label == REFERENCE else paired(scores[:, -1], final[REFERENCE][:, -1]),
        ]
        for label, scores in final.items()
    ]


def terrain_picture() -> Figure:
    r"""Fig. 2(d): the function, with its true level as a line."""
    definition = get_experiment("coast")
    terrain: Any = definition.problem()
    east, north = (column.unique() for column in terrain.domain.T)
    height = terrain.values.reshape(terrain.shape).T
    figure = Figure(figsize=(4.4, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.pcolormesh(east, north, height, cmap="RdBu_r", vmin=-1, vmax=1, shading="auto")
    axes.contour(east, north, height, [definition.threshold], colors="black")
    axes.set(xlabel="km east", ylabel="km north", aspect="equal")
    axes.set_title("mean altitude; black: coastline")
    return figure


def path_picture(results: Path, label: str, curves: LevelSetCurves, budget: Tensor) -> Figure:
    r"""Fig. 2(e), (f): the first run at a cost, with the classes by its confidence bounds."""
    definition = get_experiment("coast-travel")
    problem: Any = definition.problem()
    with records_of(results, "coast-travel") as [store]:
        affordable = int((curves.cost[0] <= budget).sum())
        X = torch.cat([record.X[0] for record in store.rounds(label)])[:affordable]
        strategy = next(islice(replay(store, definition, label), affordable - 1, None))
    goal = LevelSet(definition.threshold or 0.0)
    sets = classify_by_confidence(strategy.belief.posterior, goal, beta=CONFIDENCE)
    figure = plot_classes(
        problem.domain,
        sets.high[0],
        sets.low[0],
        X,
        xlabel="km east",
        ylabel="km north",
        title=f"{label}: {len(X)} samples for {float(budget):.0f}, "
        f"F1 {float(curves.f1[0, affordable - 1]):.2f}",
    )
    figure.axes[0].set_aspect("equal")
    figure.set_size_inches(5.6, 5.2)
    return figure


def path_pictures(results: Path, to: Path, every: dict[str, LevelSetCurves]) -> None:
    r"""The first runs at the cost that all of them have paid."""
    budget = min(curves.cost[0, -1] for curves in every.values())
    for label, curves in every.items():
        picture = path_picture(results, label, curves, budget)
        save_png(picture, to / f"path_{label.lower()}.png")


def spent_by_level(results: Path) -> Tensor:
    r"""Fig. 4(b): what TRUVAR spent on each noise level, `R x K`."""
    with records_of(results, "noise-levels") as found:
        (rounds,) = (each.rounds("TRUVAR") for each in found if "TRUVAR" in each.labels())
    level = torch.cat([record.X[..., -1] for record in rounds], dim=-1)
    counts = torch.stack([(level == k).sum(dim=-1) for k in range(len(LEVELS))], dim=-1)
    return counts * torch.tensor(LEVELS.costs or ())


def draw_noise(results: Path, path: Path) -> None:
    r"""Fig. 4(a), (b)."""
    definition = get_experiment("noise-levels")
    problem: Any = definition.problem()
    figure, (left, right) = panels(2)
    height = problem.values.reshape(50, 50).T
    axis = torch.linspace(0, 1, 50)
    figure.colorbar(left.pcolormesh(axis, axis, height, shading="auto"), ax=left)
    left.contour(axis, axis, height, [definition.threshold], colors="white")
    left.set(title=f"the function; white: {definition.threshold}", aspect="equal")
    value = mean_and_standard_error(spent_by_level(results).double())
    names = [f"{variance:g}" for variance in LEVELS.variances]
    right.bar(names, value.mean, yerr=value.half_width, color="0.6")
    right.set(xlabel="noise variance", ylabel="cost spent by TRUVAR")
    finish(figure, path)


def reported_regret(results: Path) -> dict[str, Tensor]:
    r"""Regret of the reported point, `R x (T + 1)`, on the synthetic functions."""
    regret = {}
    for store, labels in begun(results, "synthetic-maximum"):
        for label in labels:
            known = [record.recommended_objective for record in store.rounds(label)]
            found = torch.stack([value for value in known if value is not None], dim=-1)
            regret[label] = 0.0 - found  # not the -0 of an exact optimum
    return regret


def trimmed(values: Tensor) -> Tensor:
    r"""The values without the best and the worst 5 % of the runs, round by round."""
    cut = int(TRIMMED * len(values))
    return values.sort(dim=0).values[cut : len(values) - cut]


def svm_errors(results: Path) -> dict[str, Tensor]:
    r"""The smallest validation error so far, `R x (T + 1)`."""
    errors = {}
    smallest = -svm().maximum.item()
    for store, labels in begun(results, "svm"):
        for label in labels:
            best = [record.objective.amax(dim=-1) for record in store.rounds(label)]
            seen = torch.stack(best, dim=-1).nan_to_num(-torch.inf).cummax(dim=-1).values
            errors[label] = smallest - seen
    return errors


def draw_maxima(regret: dict[str, Tensor], errors: dict[str, Tensor], path: Path) -> None:
    r"""Fig. 3. Where the best point of the grid is found the regret is 0, drawn as `SMALLEST`."""
    figure, (left, middle, right) = panels(3)
    for axes in (left, middle, right):
        axes.set(xlabel="round", yscale="log")
    for label, values in regret.items():
        color, line = LOOKS[label]
        for axes, summary in (
            (left, values.median(dim=0).values),
            (middle, trimmed(values).mean(dim=0)),
        ):
            axes.plot(summary.clamp_min(SMALLEST), color=color, linestyle=line, label=label)
    for label, values in errors.items():
        draw_mean(right, values, label)
    left.set_ylabel(f"median regret; {SMALLEST:g} stands for 0")
    middle.set_ylabel("mean regret, 5 % trimmed either side")
    right.set_ylabel("smallest validation error")
    finish(figure, path, "Synthetic maxima (a, b), support vector machine (c)")


def maximum_rows(values: dict[str, Tensor], rounds: list[int]) -> list[list[str]]:
    r"""Median, trimmed mean and mean at some rounds."""
    last = rounds[-1]
    return [
        [
            label,
            str(len(regret)),
            *(f"{regret[:, t].median():.3g}" for t in rounds),
            *(cell(trimmed(regret)[:, t]) for t in rounds),
            cell(regret[:, last]),
            "" if label == REFERENCE else paired(regret[:, last], values[REFERENCE][:, last]),
        ]
        for label, regret in values.items()
    ]


def level_set_page(results: Path, to: Path) -> list[str]:
    page = []
    found: dict[str, dict[str, LevelSetCurves]] = {}
    for name in TITLES:
        definition, every = get_experiment(name), {}
        for store, labels in begun(results, name):
            every |= {label: level_set_curves(store, definition, label) for label in labels}
        if REFERENCE not in every:
            continue
        every = {REFERENCE: every.pop(REFERENCE), **every}
        found[name] = every
        costs = [f"{cost:.0f}" for cost in common_costs(every, 5)[[1, 2, 4]].tolist()]
        header = ["strategy", "seeds", *(f"F1 at cost {cost}" for cost in costs)]
        header.append(f"the last minus {REFERENCE}, paired")
        page += [f"### {name}\n", table(header, level_set_rows(every))]
    if found:
        figure, every_axes = panels(len(found))
        for axes, (name, every) in zip(every_axes, found.items(), strict=True):
            draw_f1(axes, every, "samples" if name == "coast" else "cost")
            axes.set_title(TITLES[name])
        finish(figure, to / "level_sets", f"Mean and {INTERVAL}")
    if "coast-travel" in found:
        save_png(terrain_picture(), to / "terrain.png")
        path_pictures(results, to, found["coast-travel"])
    if "noise-levels" in found:
        draw_noise(results, to / "noise_levels")
        spent = spent_by_level(results).double()
        header = ["noise variance", *(f"{variance:g}" for variance in LEVELS.variances)]
        rows = [["cost", *(cell(level) for level in spent.T)]]
        page += ["What TRUVAR spent on each noise level, Fig. 4(b):\n", table(header, rows)]
    return page


def main() -> None:
    arguments = report_parser(__doc__, "results/truvar", Path(__file__).parent).parse_args()
    results, to = arguments.results, arguments.to
    # TRUVAR warns where its practical width has ruled out the point of highest mean.
    warnings.simplefilter("ignore", BotorchWarning)
    page = level_set_page(results, to)
    regret, errors = reported_regret(results), svm_errors(results)
    for title, values in (("synthetic-maximum: regret", regret), ("svm: validation error", errors)):
        if REFERENCE in values:
            last = min(each.shape[-1] for each in values.values()) - 1
            rounds = [last // 4, last // 2, last]
            header = ["strategy", "seeds", *(f"median, round {t}" for t in rounds)]
            header += [*(f"trimmed mean, round {t}" for t in rounds), f"mean, round {last}"]
            header.append(f"minus {REFERENCE}, paired")
            page += [f"### {title}\n", table(header, maximum_rows(values, rounds))]
    if regret or errors:
        draw_maxima(regret, errors, to / "maxima")
    (to / "tables.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
