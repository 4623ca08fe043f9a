r"""Writes the picture and the tables of this folder's README from what its runs have stored.

python -m bench.studies.shift.report [--results results/shift] [--to FOLDER]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import matplotlib
import numpy as np
import torch
from botorch_risk_bench.metrics import paired_difference
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.pictures import BLUE, GREEN, ORANGE, PURPLE, VERMILION
from bench.reproduction.results import report_parser
from bench.reproduction.tables import paired, table
from bench.studies.shift.problems import CHOOSERS, CUTS, JUDGES, WEATHER
from bench.studies.shift.run import BALLS, RULES, SIZES
from bench.studies.stored_rows import read
from botorch_risk.plot_style import STYLE

LOOKS = {
    "total variation": (BLUE, "-"),
    "MMD": (GREEN, "-."),
    "Wasserstein": (VERMILION, "--"),
    "KL": (ORANGE, "-"),
    "chi-square": (PURPLE, ":"),
}
SHOWN = ("mean -1", "none", "mean +1", "spread x0.5", "spread x2", *CUTS)
TITLES = {
    "mean -1": "mean 1 sd lower",
    "none": "no shift",
    "mean +1": "mean 1 sd higher",
    "spread x0.5": "half the spread",
    "spread x2": "twice the spread",
    WEATHER[0]: "colder days follow",
    WEATHER[1]: "the same days, next year",
    WEATHER[2]: "warmer days follow",
}
PANELS = {
    "newsvendor": SHOWN,
    "branin": SHOWN,
    "heating": (WEATHER[0], WEATHER[1], WEATHER[2], None, None, WEATHER[3], WEATHER[4]),
}
# Percent; what is worse than a random decision may lie above.
LIMITS = {"newsvendor": (-30, 60), "branin": (-30, 60), "heating": (-125, 100)}
Regrets = dict[tuple[str, str, str], dict[int, float]]  # of a shift, a ball and a choice, by seed


class Results:
    r"""Regrets and radii of one problem."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._regrets: Regrets = defaultdict(dict)
        self._radii: Regrets = defaultdict(dict)
        for row in rows:
            key = row["shift"], row["ball"], row["choice"]
            self._regrets[key][row["seed"]] = row["regret"]
            self._radii[key][row["seed"]] = row["radius"]
        self.shifts = list(dict.fromkeys(key[0] for key in self._regrets))

    def regret(self, shift: str, ball: str = "none", choice: str = "0") -> Tensor:
        r"""In percent of the regret of a random decision, by seed, `R`."""
        found = self._regrets[shift, ball, choice]
        return 100 * torch.tensor([found[seed] for seed in sorted(found)], dtype=torch.double)

    def difference(self, shift: str, ball: str, choice: str) -> Any:
        r"""Less the regret of the expectation: below 0 where the ball helps."""
        regret = self.regret(shift, ball, choice)
        return paired_difference(regret, self.regret(shift)[: len(regret)])

    def has(self, ball: str) -> bool:
        return any(key[1] == ball for key in self._regrets)

    def radius(self, shift: str, ball: str, choice: str) -> float:
        r"""The median over seeds."""
        return float(np.median(list(self._radii[shift, ball, choice].values())))

    def size_of(self, shift: str, ball: str, choice: str) -> float:
        r"""The size of the shift, in sd, that the ball of a rule just holds; the median."""
        held = [0.0, *(self.radius(shift, ball, f"{size:g}") for size in SIZES)]
        return float(np.interp(self.radius(shift, ball, choice), held, [0.0, *SIZES]))


def mean_differences(results: dict[str, Results]) -> dict[str, dict[str, float]]:
    r"""By rule and ball: the mean over problems of the mean over shifts."""
    return {
        rule: {
            ball: float(
                np.mean(
                    [
                        np.mean([one.difference(s, ball, rule).mean.item() for s in one.shifts])
                        for one in results.values()
                    ]
                )
            )
            for ball in BALLS
        }
        for rule in RULES
    }


def chosen_rule(results: dict[str, Results]) -> str:
    r"""The rule with the least regret over the problems that choose, mean over balls."""
    found = mean_differences(results)
    return min(found, key=lambda rule: float(np.mean(list(found[rule].values()))))


def draw(results: dict[str, Results], rule: str, path: Path) -> None:
    r"""One panel per problem and shift: what each ball changes, over its radius."""
    columns = len(SHOWN)
    with matplotlib.rc_context({**STYLE, "font.size": 8.0}):
        figure = Figure(figsize=(2.05 * columns, 2.35 * len(PANELS) + 0.9), layout="constrained")
        grid = figure.subplots(len(PANELS), columns, squeeze=False, sharex=True, sharey="row")
    letters = iter(ascii_lowercase)
    for line, (name, shifts) in zip(grid, PANELS.items(), strict=True):
        for column, (axes, shift) in enumerate(zip(line, shifts, strict=True)):
            if shift is None:
                axes.set_axis_off()
                continue
            draw_panel(axes, results[name], shift, rule)
            axes.set_ylim(*LIMITS[name])
            axes.set_title(f"({next(letters)}) {TITLES.get(shift, shift)}", fontsize=8.5)
            if column == 0:
                axes.set_ylabel(f"{name.upper()}\nregret, less without a ball [%]")
    handles, labels = grid[0][0].get_legend_handles_labels()
    legend = grid[-1][PANELS["heating"].index(None)].legend(
        handles, labels, loc="center left", fontsize=11, handlelength=3.5
    )
    legend.set_in_layout(False)  # it is wider than its panel, next to another empty one
    figure.supxlabel(
        "radius: the shift of all contexts, in standard deviations, that the ball just holds",
        fontsize=10,
    )
    figure.suptitle(
        "Does a ball pay? In the green it is better than the expectation, above 0 it is worse "
        "(100 %: as a random decision; 20 paired seeds, Wasserstein on Branin 16; Student-t, 95 %)",
        fontsize=11,
    )
    figure.savefig(path.with_suffix(".png"), dpi=200)
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})


def draw_panel(axes: Any, results: Results, shift: str, rule: str) -> None:
    sizes = [0.0, *SIZES]
    for ball, (color, line) in LOOKS.items():
        if not results.has(ball):
            continue
        found = [results.difference(shift, ball, f"{size:g}") for size in SIZES]
        mean = np.array([0.0, *(each.mean.item() for each in found)])
        half = np.array([0.0, *(each.half_width.item() for each in found)])
        axes.plot(sizes, mean, color=color, linestyle=line, label=ball, lw=1.5)
        axes.fill_between(sizes, mean - half, mean + half, color=color, alpha=0.1, lw=0)
        axes.plot(
            results.size_of(shift, ball, rule),
            results.difference(shift, ball, rule).mean.item(),
            "o",
            color=color,
            markeredgecolor="black",
            markersize=5,
            zorder=5,
        )
    axes.plot([], [], "o", color="white", markeredgecolor="black", label="radius from the data")
    axes.axhline(0, color="black", lw=0.8)
    axes.axhspan(-200, 0, color="#e6f4ea", zorder=0)
    axes.set(xlim=(0, SIZES[-1]), xticks=(0, 0.5, 1, 1.5), xticklabels=("0", "0.5", "1", "1.5"))


def of_rules(results: dict[str, Results]) -> str:
    r"""Mean differences of each rule on the problems that choose."""
    rows = [
        [
            rule,
            *(f"{each:+.1f}" for each in found.values()),
            f"{np.mean(list(found.values())):+.1f}",
        ]
        for rule, found in mean_differences(results).items()
    ]
    return table(["rule", *BALLS, "mean"], rows)


def of_shifts(results: dict[str, Results], rule: str) -> str:
    r"""Regret of the expectation, and what each ball of the rule adds to it."""
    rows = []
    for name, one in results.items():
        for shift in one.shifts:
            base = one.regret(shift)
            cells = [name, shift, f"{base.mean():.1f}"]
            rows.append(
                [
                    *cells,
                    *(
                        paired(one.regret(shift, ball, rule), base) if one.has(ball) else "not run"
                        for ball in BALLS
                    ),
                ]
            )
    return table(["problem", "shift", "expectation", *BALLS], rows)


def of_counts(results: dict[str, Results], rule: str) -> str:
    r"""In how many of the shifts each ball helps, hurts, or is not told apart."""
    rows = []
    for ball in BALLS:
        for choice in (rule, "0.2", "0.4", "1"):
            found = [
                one.difference(shift, ball, choice)
                for one in results.values()
                if one.has(ball)
                for shift in one.shifts
            ]
            told = [each.mean.sign() * (each.mean.abs() > each.half_width) for each in found]
            signs, every = [int(each) for each in told], [each.mean.item() for each in found]
            label = "from the data" if choice == rule else f"{choice} sd"
            counts = [str(signs.count(sign)) for sign in (-1, 0, 1)]
            rows.append([ball, label, *counts, f"{min(every):+.1f}", f"{max(every):+.1f}"])
    header = ["ball", "radius", "better", "not told apart", "worse", "best case", "worst case"]
    return table(header, rows)


def of_radii(results: dict[str, Results], rule: str) -> str:
    r"""The radius of the rule, and the shift that it holds."""
    rows = []
    for name, one in results.items():
        shift = one.shifts[0]
        rows.append(
            [
                name,
                *(
                    f"{one.radius(shift, ball, rule):.2g} ({one.size_of(shift, ball, rule):.2f} sd)"
                    if one.has(ball)
                    else "not run"
                    for ball in BALLS
                ),
            ]
        )
    return table(["problem", *BALLS], rows)


def of_loop(rows: list[dict[str, Any]]) -> str:
    r"""The same with outcomes that are learnt."""
    regrets: dict[tuple[str, str], dict[str, Tensor]] = defaultdict(dict)
    for problem, shift, ball in dict.fromkeys((r["problem"], r["shift"], r["ball"]) for r in rows):
        found = [
            (r["seed"], r["regret"])
            for r in rows
            if (r["problem"], r["shift"], r["ball"]) == (problem, shift, ball)
        ]
        values = torch.tensor([regret for _, regret in sorted(found)], dtype=torch.double)
        regrets[problem, shift][ball] = 100 * values
    lines = [
        [
            *key,
            f"{found['none'].mean():.1f}",
            *(paired(found[b], found["none"]) if b in found else "not run" for b in BALLS),
        ]
        for key, found in regrets.items()
    ]
    return table(["problem", "shift", "expectation", *BALLS], lines)


def main() -> None:
    parser = report_parser(__doc__, "results/shift", Path(__file__).parent)
    arguments = parser.parse_args()

    def results_of(names: Iterable[str]) -> dict[str, Results]:
        every = {name: read(arguments.results / f"{name}.jsonl") for name in names}
        return {name: Results(rows) for name, rows in every.items() if rows}

    choosers, judges = results_of(CHOOSERS), results_of(JUDGES)
    rule = chosen_rule(choosers)
    text = [
        "Percent of the regret of a random decision under the shifted distribution.\n",
        "## The rule for the radius, on three other problems\n",
        "Regret, less without a ball, mean over problems and shifts:\n",
        of_rules(choosers),
        f"Least: {rule}.\n",
        "## Radii of that rule\n",
        "Medians, and the shift of all contexts that such a ball just holds:\n",
        of_radii(judges, rule),
        "## In how many shifts\n",
        of_counts(judges, rule),
        "## With the radius from the data, shift by shift\n",
        of_shifts(judges, rule),
    ]
    learnt = read(arguments.results / "loop.jsonl")
    if learnt:
        text += ["## With outcomes that are learnt\n", of_loop(learnt)]
    (arguments.to / "tables.md").write_text("\n".join(text), encoding="utf-8")
    if set(judges) == set(JUDGES):
        draw(judges, rule, arguments.to / "shift")


if __name__ == "__main__":
    main()
