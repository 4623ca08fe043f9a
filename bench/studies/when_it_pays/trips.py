r"""When weighing the cost of trips pays: TRUVAR."""

from pathlib import Path
from typing import NamedTuple

import torch
from botorch_risk_bench.metrics import MeanAndStandardError, median, paired_difference
from botorch_risk_bench.reports.level_sets import level_set_curves
from torch import Tensor

from bench.reproduction.pictures import finish, panels
from bench.reproduction.results import records_of
from bench.reproduction.tables import Comparison, table
from bench.studies.when_it_pays.experiments import TRIP_RATIOS, TRIPS, TripCost, truvar_label
from bench.studies.when_it_pays.verdicts import (
    BETTER,
    DEFINITIONS,
    counts,
    draw_judged,
    explain_marks,
    verdict,
)

GOOD_F1 = 0.95  # as in bench/reproduction/truvar
MARGIN = -torch.tensor(0.9).log().item()  # a saving that counts: 10 percent
BASE = truvar_label(0.0)  # it does not weigh trips
TITLES = {"functions": "random functions", "coast": "a coast"}
WEIGHED = "weighed"
PAIRS = {
    "weighing to not weighing": (WEIGHED, BASE),
    "GCHK to not weighing": ("GCHK", BASE),
    "weighing to GCHK": (WEIGHED, "GCHK"),
}


class Run(NamedTuple):
    r"""Where a strategy measured, `R x (T + 1) x 2`, and the F1 score after it, `R x (T + 1)`."""

    path: Tensor
    f1: Tensor


def collected(results: Path) -> dict[str, dict[str, Run]]:
    r"""All runs by problem and strategy; the F1 scores are found by telling them their data."""
    found: dict[str, dict[str, Run]] = {}
    for name in TRIPS:
        with records_of(results, f"trips-{name}") as records:
            for store in records:
                rounds = {label: store.rounds(label) for label in store.labels()}
                played = {label: each for label, each in rounds.items() if len(each) > 1}
                if {*played} != {*DEFINITIONS[f"trips-{name}"].strategies}:
                    continue
                for label, each in played.items():
                    path = torch.cat([record.X for record in each], dim=-2)
                    curves = level_set_curves(store, DEFINITIONS[f"trips-{name}"], label)
                    found.setdefault(name, {})[label] = Run(path, curves.f1)
    return found


def cost_to_level(run: Run, cost: TripCost) -> Tensor:
    r"""The logarithm of what it cost until F1 was good for the first time, `R`; NaN if never."""
    paid = torch.ones_like(run.f1)
    paid[:, 1:] = cost(run.path[:, 1:], run.path[:, :-1])
    spent = paid.nan_to_num(nan=0.0).cumsum(dim=-1)  # a finished replicate measures nothing
    good = run.f1 >= GOOD_F1
    first = good.int().argmax(dim=-1, keepdim=True)
    return spent.gather(-1, first).squeeze(-1).log().where(good.any(dim=-1), torch.nan)


def costs(name: str, runs: dict[str, Run], ratio: float) -> dict[str, Tensor]:
    r"""Logarithms of costs of what is compared at one ratio."""
    cost = TripCost(ratio, TRIPS[name][4])
    labels = {WEIGHED: truvar_label(ratio), BASE: BASE, "GCHK": "GCHK"}
    return {key: cost_to_level(runs[label], cost) for key, label in labels.items()}


def factor(found: MeanAndStandardError) -> Comparison:
    r"""A cell: the ratio of costs, its interval and the verdict."""
    low, high = found.mean - found.half_width, found.mean + found.half_width
    middle, lower, upper = (each.exp().item() for each in (found.mean, low, high))
    return Comparison(f"{middle:.2f} ({lower:.2f} to {upper:.2f}), {verdict(found, MARGIN)}")


def page(results: dict[str, dict[str, Run]]) -> list[str]:
    r"""Costs and their ratios, and how often each verdict was given."""
    rows = []
    for name, runs in results.items():
        for ratio in TRIP_RATIOS:
            spent = costs(name, runs, ratio)
            medians = [f"{median(each.exp()):.0f}" for each in spent.values()]
            cells: list[str] = [
                "" if a == WEIGHED and b == BASE and not ratio else factor(_paired(spent, a, b))
                for a, b in PAIRS.values()
            ]
            rows.append([TITLES[name], f"{ratio:g}", *medians, *cells])
    header = ["problem", "trip to measurement", "median cost, weighing", "not weighing", "GCHK"]
    lines = [
        f"- {pair}: {counts(row[5 + column] for row in rows if row[5 + column])}."
        for column, pair in enumerate(PAIRS)
    ]
    reached = sum(
        int((run.f1 >= GOOD_F1).any(dim=-1).sum())
        for runs in results.values()
        for run in runs.values()
    )
    number = sum(len(run.f1) for runs in results.values() for run in runs.values())
    return [
        "## Trip to measurement, TRUVAR\n",
        f"What it cost until F1 was {GOOD_F1:g}, in measurements; {reached} of {number} runs got "
        "there. Ratios are geometric means over pairs:\n",
        table([*header, *PAIRS], rows),
        "\n".join(lines) + "\n",
    ]


def draw(results: dict[str, dict[str, Run]], path: Path) -> None:
    r"""A panel a problem: the cost of an F1 score over the ratio."""
    figure, every = panels(len(results), columns=2, height=3.8)
    x = list(range(len(TRIP_RATIOS)))
    for axes, (name, runs) in zip(every, results.items(), strict=True):
        spent = [costs(name, runs, ratio) for ratio in TRIP_RATIOS]
        for value, label, shown in (
            (WEIGHED, "TRUVAR", "TRUVAR, trips weighed"),
            ("GCHK", "GCHK", "GCHK, which weighs nothing"),
        ):
            found = [_paired(each, value, BASE) for each in spent]
            words = [
                None if value == WEIGHED and not ratio else verdict(each, MARGIN)
                for each, ratio in zip(found, TRIP_RATIOS, strict=True)
            ]
            draw_judged(axes, x, found, words, label, shown, lambda each: 100 * each.exp())
        axes.axhline(100, color="black", lw=0.8)
        axes.axhspan(1, 100, color=BETTER, zorder=0)
        axes.set(yscale="log", ylim=(18, 140), title=TITLES[name])
        axes.set_xticks(x, [f"{ratio:g}" for ratio in TRIP_RATIOS])
        axes.set_yticks([20, 30, 50, 70, 100, 130], ["20", "30", "50", "70", "100", "130"])
        axes.minorticks_off()
        axes.set_xlabel("a trip across the domain, in measurements")
    every[0].set_ylabel(f"cost until F1 is {GOOD_F1:g} [%]")
    explain_marks(every[0])
    seeds = len(next(iter(next(iter(results.values())).values())).f1)
    finish(
        figure,
        path,
        "When does it pay to weigh trips? 100 %: TRUVAR that does not weigh them, and pays for "
        f"them\nIn the green it is cheaper. {seeds} paired seeds, Student-t, 95 %",
    )


def _paired(spent: dict[str, Tensor], value: str, reference: str) -> MeanAndStandardError:
    return paired_difference(spent[value], spent[reference])
