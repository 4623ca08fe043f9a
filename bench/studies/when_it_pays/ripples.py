r"""At which ripples and which budget UHE-BO pays."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.reports.summary import regret_curves
from matplotlib.cm import ScalarMappable
from matplotlib.colors import SymLogNorm
from torch import Tensor

from bench.reproduction.pictures import finish, panels
from bench.reproduction.results import records_of
from bench.reproduction.tables import paired, table
from bench.studies.when_it_pays.experiments import (
    BUDGET,
    DEEP,
    DEFAULT,
    FREQUENCIES,
    HALF_WIDTHS,
    PAPERS,
)
from bench.studies.when_it_pays.verdicts import (
    DEFINITIONS,
    DOES_NOT,
    MARGIN,
    PAYS,
    UNDECIDED,
    counts,
    judged,
    percent_of_random,
    verdict,
)

BUDGETS = (10, 20, 40, 70, BUDGET)
LARGEST, TICKS = 60, (-50, -20, -10, -5, -2, 0, 2, 5, 10, 20, 50)  # percent, of the colours
PALE = 0.35
SMALLEST = 1e-6  # of a regret, for its logarithm
FAMILIES = {
    "ripples": {f"ripples-{k}": str(k) for k in FREQUENCIES},
    "deep": {f"deep-ripples-{k}": str(k) for k in DEEP},
    # sin^2 has a ripple in each length of pi
    "h1": {f"h1-{width:g}": f"{2 * width / torch.pi:.0f}" for width in HALF_WIDTHS},
}
TITLES = {
    "ripples": "ripples of half a wide peak",
    "deep": "ripples down to 0 on a wide peak",
    "h1": "h1, boxes of five sizes",
}
PRIORS = {PAPERS: "UHE-BO's priors", DEFAULT: "BoTorch's default priors"}
ARMS = [label + suffix for suffix in PRIORS for label in ("UHE-BO", "MAP")]
Regrets = dict[str, dict[str, dict[str, Tensor]]]  # by family, ripples a side and strategy


def collected(results: Path) -> Regrets:
    r"""Simple regret `R x (T + 1)` in percent of a random decision's."""
    every: Regrets = {}
    for family, names in FAMILIES.items():
        for name, frequency in names.items():
            with records_of(results, name) as records:
                if not records:
                    continue
                (store,) = records
                curves = regret_curves(store)
                if set(curves) != set(ARMS):
                    continue
                problem: Any = DEFINITIONS[name].problem_of(store.identity["seeds"])
                optimum = store.identity["optimal_value"]
                every.setdefault(family, {})[frequency] = {
                    label: percent_of_random(curve.simple, problem, optimum)
                    for label, curve in curves.items()
                }
    return every


def shown_budgets(by_frequency: dict[str, dict[str, Tensor]]) -> list[int]:
    lengths = [each.shape[-1] for regret in by_frequency.values() for each in regret.values()]
    last = min(lengths) - 1
    return [budget for budget in BUDGETS if budget <= last]


def page(results: Regrets) -> list[str]:
    r"""Differences by budget, with how often each verdict was given, and where all end."""
    text = ["## Ripples and budget, UHE-BO\n"]
    for family, by_frequency in results.items():
        budgets = shown_budgets(by_frequency)
        for suffix, priors in PRIORS.items():
            rows = [
                [
                    frequency,
                    *(
                        judged(regret[f"UHE-BO{suffix}"][:, t], regret[f"MAP{suffix}"][:, t])
                        for t in budgets
                    ),
                ]
                for frequency, regret in by_frequency.items()
            ]
            every = [each for row in rows for each in row[1:]]
            text += [
                f"### {TITLES[family]}, {priors}\n",
                "Simple regret of UHE-BO minus MAP's, percent of a random decision's, after "
                f"evaluations. {counts(every).capitalize()}:\n",
                table(["ripples a side", *map(str, budgets)], rows),
            ]
        ends = [
            [
                frequency,
                *(f"{regret[label][:, budgets[-1]].mean():.2f}" for label in ARMS),
                *(
                    paired(
                        *(
                            (regret[label + suffix][:, budgets[-1]] / 100)
                            .clamp_min(SMALLEST)
                            .log10()
                            for label in ("UHE-BO", "MAP")
                        )
                    )
                    for suffix in PRIORS
                ),
            ]
            for frequency, regret in by_frequency.items()
        ]
        logs = [f"log10, UHE-BO less MAP{suffix}" for suffix in PRIORS]
        text += [
            f"### {TITLES[family]}, after {budgets[-1]} evaluations\n",
            table(["ripples a side", *ARMS, *logs], ends),
        ]
    return text


def draw(results: Regrets, path: Path) -> None:
    r"""A map a family and priors: what UHE-BO changes, by ripples and budget."""
    figure, every = panels(len(results) * len(PRIORS), columns=2, height=3.6)
    colors = ScalarMappable(SymLogNorm(linthresh=1.0, vmin=-LARGEST, vmax=LARGEST), "RdBu_r")
    kinds = [(family, suffix) for family in results for suffix in PRIORS]
    for axes, (family, suffix) in zip(every, kinds, strict=True):
        draw_map(axes, results[family], suffix, colors)
        axes.set_title(f"{TITLES[family]},\n{PRIORS[suffix]}", fontsize=10)
        axes.set(xlabel="ripples from end to end", ylabel="evaluations")
    bar = figure.colorbar(colors, ax=every, label="change in simple regret [%]", ticks=TICKS)
    bar.ax.set_yticklabels([f"{each:+d}" if each else "0" for each in TICKS])
    bar.ax.minorticks_off()
    seeds = len(next(iter(next(iter(results[kinds[0][0]].values())).values())))
    finish(
        figure,
        path,
        "When does UHE-BO pay? Simple regret less that of GP-UCB with the same model at its MAP\n"
        f"100 %: the regret of a random decision. Blue: UHE-BO is better; pale, without a word: "
        f"undecided; no: it does not pay\n{seeds} paired seeds, Student-t, 95 %",
    )


def draw_map(
    axes: Any, by_frequency: dict[str, dict[str, Tensor]], suffix: str, colors: ScalarMappable
) -> None:
    r"""A cell for each number of ripples and budget; undecided ones are pale."""
    budgets = shown_budgets(by_frequency)
    image = np.zeros((len(budgets), len(by_frequency), 4))
    for column, regret in enumerate(by_frequency.values()):
        for row, budget in enumerate(budgets):
            ours, reference = (regret[f"{each}{suffix}"][:, budget] for each in ("UHE-BO", "MAP"))
            found = paired_difference(ours, reference)
            word = verdict(found, MARGIN)
            alpha = PALE if word == UNDECIDED else 1.0
            rgba = np.array(colors.to_rgba(found.mean.item()))
            image[row, column] = [*(1 - alpha * (1 - rgba[:3])), 1.0]
            shown = f"{found.mean.item():+.1f}".replace("-0.0", "0.0").replace("+0.0", "0.0")
            axes.text(
                column,
                row,
                shown + {PAYS: "\npays", DOES_NOT: "\nno"}.get(word, ""),
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold" if word == PAYS else "normal",
                color="white" if image[row, column, :3].mean() < 0.45 else "black",
            )
    axes.imshow(image, aspect="auto", origin="lower")
    axes.grid(visible=False)
    axes.set_xticks(range(len(by_frequency)), by_frequency)
    axes.set_yticks(range(len(budgets)), [str(each) for each in budgets])
