r"""Whether a method pays: three words for a paired difference, in pictures and in tables.

The rule was set before any result of the campaign was read.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.metrics import MeanAndStandardError, format_with_error, paired_difference
from torch import Tensor
from torch.quasirandom import SobolEngine

from bench.reproduction.pictures import LOOKS
from bench.reproduction.tables import Comparison
from bench.studies.when_it_pays.experiments import EXPERIMENTS

PAYS, DOES_NOT, UNDECIDED = "pays", "does not pay", "undecided"
MARKS: dict[str, dict[str, Any]] = {
    PAYS: {"marker": "o"},
    DOES_NOT: {"marker": "x"},
    UNDECIDED: {"marker": "o", "markerfacecolor": "white"},
}
LINE: dict[str, Any] = {"linestyle": "none", "markersize": 6, "markeredgewidth": 1.4}
MARGIN = 1.0  # a gain that counts: percent of the regret of a random decision
BETTER = "#e6f4ea"  # the colour behind what is better than the reference
NUM_RANDOM = 2**14

DEFINITIONS: dict[str, ExperimentDefinition] = {each.name: each for each in EXPERIMENTS}


def verdict(difference: MeanAndStandardError, margin: float) -> str:
    r"""Of a loss less the reference's: does its interval exclude 0, or a gain of the margin?"""
    low = difference.mean.item() - difference.half_width.item()
    high = difference.mean.item() + difference.half_width.item()
    if low > -margin:
        return DOES_NOT
    return PAYS if high < 0 else UNDECIDED


def judged(values: Tensor, reference: Tensor) -> Comparison:
    r"""A cell: the paired difference of regrets in percent, and its verdict."""
    found = paired_difference(values, reference)
    shown = format_with_error(found.mean.item(), found.half_width.item())
    return Comparison(f"{shown}, {verdict(found, MARGIN)}")


def counts(cells: Iterable[str]) -> str:
    r"""How often each verdict was given."""
    every = list(cells)
    found = Counter(each.rpartition(", ")[2] for each in every)
    words = ", ".join(f"{word} {found[word]}" for word in MARKS)
    return f"{words}, of {len(every)}"


def percent_of_random(regret: Tensor, problem: Any, optimum: float) -> Tensor:
    r"""Regrets `R x ...` in percent of the mean regret of a random decision of that replicate."""
    lower, upper = problem.bounds
    unit = SobolEngine(lower.shape[-1], scramble=True, seed=0).draw(NUM_RANDOM, dtype=torch.double)
    points = (lower + (upper - lower) * unit).expand(len(regret), -1, -1)
    scale = (optimum - problem.objective(points)).mean(dim=-1)
    return 100 * regret / scale.reshape(-1, *[1] * (regret.dim() - 1))


def draw_judged(
    axes: Any,
    x: Sequence[float],
    found: Sequence[MeanAndStandardError],
    verdicts: Sequence[str | None],
    label: str,
    shown: str,
    transform: Any = lambda values: values,
) -> None:
    r"""A line of means with its band, and a mark at each point that says the verdict.

    Args:
        axes: What is drawn on.
        x: Where the points are.
        found: Their means and intervals.
        verdicts: Their verdicts; None where there is nothing to judge.
        label: The method, whose colour and line it has.
        shown: What the legend says.
        transform: Of means and ends of intervals before they are drawn.
    """
    color, line = LOOKS[label]
    mean = torch.stack([each.mean for each in found])
    half = torch.stack([each.half_width for each in found])
    axes.plot(x, transform(mean), color=color, linestyle=line, label=shown)
    axes.fill_between(
        x, transform(mean - half), transform(mean + half), color=color, alpha=0.12, lw=0
    )
    for place, value, word in zip(x, transform(mean), verdicts, strict=True):
        if word is not None:
            axes.plot(place, value, color=color, zorder=3, **LINE, **MARKS[word])


def explain_marks(axes: Any) -> None:
    r"""Entries of the legend for the marks."""
    for word, mark in MARKS.items():
        axes.plot([], [], color="0.2", label=word, **LINE, **mark)
