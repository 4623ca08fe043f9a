r"""At which ripples and which budget UHE-BO pays."""

from pathlib import Path
from typing import Any

import matplotlib
import torch
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.reports.summary import regret_curves
from matplotlib.colors import SymLogNorm
from torch import Tensor

from bench.reproduction.pictures import finish, panels
from bench.reproduction.results import records_of
from bench.reproduction.tables import paired, table
from bench.studies.when_it_pays.experiments import BUDGET, DEFAULT, FREQUENCIES, HALF_WIDTHS, PAPERS
from bench.studies.when_it_pays.verdicts import (
    DEFINITIONS,
    DOES_NOT,
    MARGIN,
    PAYS,
    counts,
    judged,
    percent_of_random,
    verdict,
)

BUDGETS = (10, 20, 40, 70, BUDGET)
SMALLEST = 1e-6  # of a regret, for its logarithm
FAMILIES = {
    "ripples": {f"ripples-{k}": str(k) for k in FREQUENCIES},
    # sin^2 has a ripple in each length of pi
    "h1": {f"h1-{width:g}": f"{2 * width / torch.pi:.0f}" for width in HALF_WIDTHS},
}
TITLES = {"ripples": "ripples on a wide peak", "h1": "h1, boxes of five sizes"}
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
                problem: Any = DEFINITIONS[name].problem_of(store.identity["seeds"])
                optimum = store.identity["optimal_value"]
                every.setdefault(family, {})[frequency] = {
                    label: percent_of_random(curve.simple, problem, optimum)
                    for label, curve in regret_curves(store).items()
                }
    return every


def shown_budgets(regret: dict[str, Tensor]) -> list[int]:
    last = min(each.shape[-1] for each in regret.values()) - 1
    return [budget for budget in BUDGETS if budget <= last]


def page(results: Regrets) -> list[str]:
    r"""Differences by budget, with how often each verdict was given, and where all end."""
    text = ["## Ripples and budget, UHE-BO\n"]
    for family, by_frequency in results.items():
        budgets = shown_budgets(next(iter(by_frequency.values())))
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
                "Simple regret of UHE-BO less that of MAP, percent of a random decision's, after "
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
    norm = SymLogNorm(linthresh=1.0, vmin=-30, vmax=30)
    image = None
    for index, axes in enumerate(every):
        family, suffix = list(results)[index // len(PRIORS)], list(PRIORS)[index % len(PRIORS)]
        by_frequency = results[family]
        budgets = shown_budgets(next(iter(by_frequency.values())))
        means = torch.zeros(len(budgets), len(by_frequency))
        for column, regret in enumerate(by_frequency.values()):
            for row, budget in enumerate(budgets):
                found = paired_difference(
                    regret[f"UHE-BO{suffix}"][:, budget], regret[f"MAP{suffix}"][:, budget]
                )
                means[row, column] = found.mean
                word = verdict(found, MARGIN)
                axes.text(
                    column,
                    row,
                    f"{found.mean:+.1f}" + {PAYS: "\npays", DOES_NOT: "\nno"}.get(word, ""),
                    ha="center",
                    va="center",
                    fontsize=8,
                    fontweight="bold" if word == PAYS else "normal",
                )
        image = axes.imshow(
            means, cmap=matplotlib.colormaps["RdBu_r"], norm=norm, aspect="auto", origin="lower"
        )
        axes.grid(visible=False)
        axes.set_xticks(range(len(by_frequency)), by_frequency)
        axes.set_yticks(range(len(budgets)), [str(each) for each in budgets])
        axes.set(title=f"{TITLES[family]}, {PRIORS[suffix]}", xlabel="ripples from end to end")
        if index % len(PRIORS) == 0:
            axes.set_ylabel("evaluations")
    if image is not None:
        figure.colorbar(
            image, ax=every, label="change in simple regret [%]", ticks=[-30, -10, -3, 0, 3, 10, 30]
        ).ax.minorticks_off()
    seeds = len(next(iter(regret.values())))
    finish(
        figure,
        path,
        "When does UHE-BO pay? Simple regret less that of GP-UCB with the same model at its MAP; "
        "blue: UHE-BO is better\n100 %: the regret of a random decision. "
        f"Without a word: undecided. {seeds} paired seeds, Student-t, 95 %",
    )
