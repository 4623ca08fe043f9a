r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

The curves are kept in `curves/`: a series whose rounds are in no store any more is read from there.
The paths and what was spent on each noise level need the rounds themselves, and stay as they are.

python -m bench.reproduction.truvar.report [--results results/truvar] [--to FOLDER]
"""

import warnings
from collections.abc import Iterable
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.experiments.papers.truvar import LEVELS
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import classify_by_confidence, mean_and_standard_error, median
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

from bench.reproduction.pictures import draw_mean, finish, panels, seeds_of
from bench.reproduction.results import Report, is_stored, records_of
from bench.reproduction.stored_curves import with_kept
from bench.reproduction.tables import cell, comparisons, paired, table
from bench.reproduction.truvar.maxima import REFERENCE, SPELLED, begun, maxima_page
from botorch_risk.papers import LevelSet

TITLES = {
    "coast": "a coast, unit cost",
    "coast-travel": "a coast, travel to pay",
    "noise-levels": "three noise levels",
    "coast-lake-ranges": "a coast, travel and depth as on the lake",
    "noise-levels-functions": "three noise levels, ten functions",
}
GROUPS = {  # pictures of level sets, and what is in them
    "level_sets": ("coast", "coast-travel", "noise-levels"),
    "level_sets_more": ("coast-lake-ranges", "noise-levels-functions"),
}
COMPARED_AT = {  # costs of the tables of paired differences
    "coast": (15, 30, 60, 90, 120),
    "coast-travel": (300, 600, 900, 1_200, 1_500, 1_800),
    "noise-levels": (60, 100, 150, 200, 250, 300, 350, 400, 500, 600, 700, 800),
    "coast-lake-ranges": (1_500, 3_000, 6_000),
    "noise-levels-functions": (60, 100, 150, 200, 250, 300, 400, 500, 600, 700, 800, 1_000, 1_200),
}
GOOD_F1 = 0.95
CONFIDENCE = 9.0  # of the classes in the pictures: mean +- 3 standard deviations


def draw_f1(axes: Any, every: dict[str, LevelSetCurves], xlabel: str) -> None:
    costs = common_costs(every, 200)
    for label, curves in every.items():
        draw_mean(axes, score_at_cost(curves, costs), label, x=costs, shown=SPELLED.get(label))
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
            cost_of(every[label]),
        ]
        for label, scores in final.items()
    ]


def cost_of(curves: LevelSetCurves) -> str:
    r"""What a run had paid when its F1 was first good: the median run, and how many came so far."""
    good = curves.f1 >= GOOD_F1
    reached = good.any(dim=-1)
    first = good.to(torch.uint8).argmax(dim=-1, keepdim=True)
    cost = curves.cost.gather(-1, first).squeeze(-1).where(reached, torch.inf)
    middle = median(cost).item()
    shown = f"{middle:.0f}" if middle < torch.inf else "not reached"
    return f"{shown} ({int(reached.sum())} of {len(cost)} runs)"


def differences_of_f1(every: dict[str, LevelSetCurves], costs: Iterable[float]) -> str:
    r"""F1 of two methods at a time; a search that has ended keeps its F1."""
    columns = {
        f"cost {cost:g}": {
            label: score_at_cost(curves, torch.tensor([cost]).to(curves.cost))[:, 0]
            for label, curves in every.items()
        }
        for cost in costs
    }
    return comparisons(columns, combinations(every, 2))


def of_level_set(results: Path, kept: Path, name: str) -> dict[str, LevelSetCurves]:
    r"""Curves from the stores, or as an earlier report kept them."""
    definition = get_experiment(name)
    played = {
        label: level_set_curves(store, definition, label)._asdict()
        for store, labels in begun(results, name)
        for label in labels
    }
    every = with_kept(kept / f"{name}.json.gz", played)
    return {label: LevelSetCurves(each["cost"], each["f1"]) for label, each in every.items()}


def terrain_picture() -> Figure:
    r"""Fig. 2(d): the function, with its true level as a line."""
    definition = get_experiment("coast")
    terrain: Any = definition.problem()
    east, north = (column.unique() for column in terrain.domain.T)
    height = terrain.values.reshape(terrain.shape).T
    figure = Figure(figsize=(4.4, 4.6), layout="constrained")
    axes = figure.subplots()
    mesh = axes.pcolormesh(east, north, height, cmap="RdBu_r", vmin=-1, vmax=1, shading="auto")
    figure.colorbar(mesh, ax=axes, label="mean altitude, km")
    axes.contour(east, north, height, [definition.threshold], colors="black")
    axes.set(xlabel="km east", ylabel="km north", aspect="equal")
    axes.set_title("black: the coastline")
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
    mesh = left.pcolormesh(axis, axis, height, shading="auto")
    figure.colorbar(mesh, ax=left, label="value of the function")
    left.contour(axis, axis, height, [definition.threshold], colors="white")
    left.set(title=f"white: the threshold, {definition.threshold}", aspect="equal")
    left.set(xlabel="first input", ylabel="second input")
    value = mean_and_standard_error(spent_by_level(results).double())
    names = [f"{variance:g}" for variance in LEVELS.variances]
    right.bar(names, value.mean, yerr=value.half_width, color="0.6")
    right.set(xlabel="noise variance", ylabel="cost spent by TRUVAR")
    finish(figure, path)


def level_set_page(results: Path, to: Path) -> list[str]:
    page = []
    found: dict[str, dict[str, LevelSetCurves]] = {}
    for name in TITLES:
        every = of_level_set(results, to / "curves", name)
        if REFERENCE not in every:
            continue
        every = {REFERENCE: every.pop(REFERENCE), **every}
        found[name] = every
        costs = [f"{cost:.0f}" for cost in common_costs(every, 5)[[1, 2, 4]].tolist()]
        header = ["strategy", "seeds", *(f"F1 at cost {cost}" for cost in costs)]
        header.append(f"the last minus {REFERENCE}, paired")
        header.append(f"median cost to F1 {GOOD_F1:g}")
        page += [f"### {name}\n", table(header, level_set_rows(every))]
        if name in COMPARED_AT:
            page += ["F1, two methods at a time:\n", differences_of_f1(every, COMPARED_AT[name])]
    for group, names in GROUPS.items():
        there = {name: found[name] for name in names if name in found}
        if there:
            figure, every_axes = panels(len(there))
            for axes, (name, every) in zip(every_axes, there.items(), strict=True):
                draw_f1(axes, every, "samples" if name == "coast" else "cost")
                axes.set_title(TITLES[name])
            seeds = seeds_of(curves.f1 for every in there.values() for curves in every.values())
            finish(figure, to / group, seeds)
    if found:
        save_png(terrain_picture(), to / "terrain.png")
    if is_stored(results, "coast-travel"):
        path_pictures(results, to, found["coast-travel"])
    if is_stored(results, "noise-levels"):
        draw_noise(results, to / "noise_levels")
        spent = spent_by_level(results).double()
        header = ["noise variance", *(f"{variance:g}" for variance in LEVELS.variances)]
        rows = [["cost", *(cell(level) for level in spent.T)]]
        page += ["### noise-levels: what TRUVAR spent on each, Fig. 4(b)\n", table(header, rows)]
    return page


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    results, to = report.results, report.to
    # TRUVAR warns where its practical width has ruled out the point of highest mean.
    warnings.simplefilter("ignore", BotorchWarning)
    page = level_set_page(results, to) + maxima_page(results, to)
    report.write(page)


if __name__ == "__main__":
    main()
