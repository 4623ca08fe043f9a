r"""How different the noise of near-equal optima must be before RAHBO pays."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.reports.replay import final_strategy
from botorch_risk_bench.reports.summary import regret_curves
from matplotlib.ticker import NullLocator
from torch import Tensor

from bench.reproduction.pictures import finish, panels
from bench.reproduction.rahbo.report import recommended
from bench.reproduction.results import records_of
from bench.reproduction.tables import table
from bench.studies.when_it_pays.experiments import NOISE_RATIOS, NOISY, QUIET, RISK_AVERSION
from bench.studies.when_it_pays.verdicts import (
    BETTER,
    DEFINITIONS,
    MARGIN,
    counts,
    draw_judged,
    explain_marks,
    judged,
    percent_of_random,
    verdict,
)

TITLES = {
    "equal-peaks": "two equal peaks, one input",
    "noisy-peak-higher": "the noisier peak is higher by 0.1",
    "camel": "two equal peaks, two inputs",
}
# What is compared: a value less another.
PAIRS = {
    "RAHBO's report less GP-UCB's": ("RAHBO", "neutral"),
    "GP-UCB by RAHBO's rule less by its own": ("rule", "neutral"),
    "RAHBO's report less GP-UCB's by RAHBO's rule": ("RAHBO", "rule"),
    "RAHBO's evaluations less GP-UCB's": ("RAHBO's evaluations", "GP-UCB's evaluations"),
}


class Played(NamedTuple):
    r"""Regrets `R` in percent, and what the noisier of two peaks costs in the same unit."""

    regret: dict[str, Tensor]
    penalty: float


def played(results: Path, name: str, ratio: float) -> Played | None:
    r"""What was reported and what was evaluated, in the regret of a random decision."""
    experiment = f"{name}-{ratio:g}"
    definition = DEFINITIONS[experiment]
    problem: Any = definition.problem()
    optimum = problem.optimal_mean_variance(RISK_AVERSION)[1]
    with records_of(results, experiment) as found:
        if not found:
            return None
        (store,) = found
        curves = regret_curves(store)
        if not {"RAHBO", "GP-UCB"} <= {*curves}:
            return None
        neutral = recommended(
            final_strategy(store, definition, "GP-UCB"), "lower_confidence_bound", risk_aversion=0.0
        )
    regret = {
        "RAHBO": curves["RAHBO"].simple[:, -1],
        "rule": curves["GP-UCB"].simple[:, -1],
        "neutral": optimum - problem.objective(neutral),
        **{
            f"{label}'s evaluations": curve.cumulative[:, -1] / curve.num_rounds
            for label, curve in curves.items()
        },
    }
    noisier = torch.full((1,), RISK_AVERSION * QUIET**2 * (ratio**2 - 1), dtype=torch.double)
    return Played(
        {label: percent_of_random(each, problem, optimum) for label, each in regret.items()},
        percent_of_random(noisier, problem, optimum).item(),
    )


def page(results: dict[str, dict[float, Played]]) -> list[str]:
    r"""A table of regrets, one of differences, and how often each verdict was given."""
    regrets, differences = [], []
    for name, by_ratio in results.items():
        for ratio, one in by_ratio.items():
            means = [f"{each.mean():.2f}" for each in one.regret.values()]
            regrets.append([TITLES[name], f"{ratio:g}", f"{one.penalty:.1f}", *means])
            cells: list[str] = [judged(one.regret[a], one.regret[b]) for a, b in PAIRS.values()]
            differences.append([TITLES[name], f"{ratio:g}", *cells])
    shown = ("RAHBO's report", "GP-UCB's, by RAHBO's rule", "GP-UCB's, by its own rule")
    evaluations = ("RAHBO's evaluations", "GP-UCB's evaluations")
    header = ["problem", "ratio of sd", "penalty of the noisier peak", *shown, *evaluations]
    lines = [
        f"- {pair}: {counts(row[2 + column] for row in differences)}."
        for column, pair in enumerate(PAIRS)
    ]
    return [
        "## Noise ratio, RAHBO\n",
        "Regret in mean minus variance, percent of a random decision's regret:\n",
        table(header, regrets),
        "Paired differences:\n",
        table(["problem", "ratio of sd", *PAIRS], differences),
        "\n".join(lines) + "\n",
    ]


def draw(results: dict[str, dict[float, Played]], path: Path) -> None:
    r"""Above what is reported, below what is evaluated, over the ratio."""
    figure, every = panels(2 * len(results))
    rows = (
        (
            ("RAHBO", "neutral", "RAHBO", "RAHBO"),
            ("rule", "neutral", "GP-UCB", "GP-UCB's data, reported by RAHBO's rule"),
        ),
        (("RAHBO's evaluations", "GP-UCB's evaluations", "RAHBO", "RAHBO"),),
    )
    ratios = list(next(iter(results.values())))
    for index, axes in enumerate(every):
        row, column = divmod(index, len(results))
        name = list(results)[column]
        for value, reference, label, shown in rows[row]:
            found = [
                paired_difference(one.regret[value], one.regret[reference])
                for one in results[name].values()
            ]
            words = [verdict(each, MARGIN) for each in found]
            draw_judged(axes, ratios, found, words, label, shown)
        axes.axhline(0, color="black", lw=0.8)
        axes.set(xscale="log", xlabel="standard deviation, noisier to quieter peak")
        axes.set_xticks(
            ratios, [f"{r:g}\n({one.penalty:.0f} %)" for r, one in results[name].items()]
        )
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(TITLES[name])
        if column == 0:
            what = ("of the report", "of the evaluations")[row]
            axes.set_ylabel(f"change in the regret {what} [%]")
        axes.set_ylim((-60, 10) if row == 0 else (-85, 10))
        axes.axhspan(-200, 0, color=BETTER, zorder=0)
    explain_marks(every[0])
    seeds = len(next(iter(results[name].values())).regret["RAHBO"])
    finish(
        figure,
        path,
        "When does RAHBO pay? Regret less that of GP-UCB, which minds the mean alone; in the green "
        f"RAHBO is better\n100 %: the regret of a random decision. In brackets: what the noisier "
        f"peak costs. {seeds} paired seeds, Student-t, 95 %",
    )


def collected(results: Path) -> dict[str, dict[float, Played]]:
    r"""All that was played, by problem and ratio."""
    found = {
        name: {ratio: played(results, name, ratio) for ratio in NOISE_RATIOS} for name in NOISY
    }
    there = {
        name: {ratio: one for ratio, one in by_ratio.items() if one is not None}
        for name, by_ratio in found.items()
    }
    return {name: by_ratio for name, by_ratio in there.items() if by_ratio}
