r"""How every picture of this folder looks: one colour and one line for each method, everywhere.

The paper's own methods are strong, baselines that several papers share are grey.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import matplotlib
import torch
from botorch_risk_bench.metrics import INTERVAL, mean_and_standard_error
from botorch_risk_bench.reports.plots import save_png
from matplotlib.figure import Figure
from torch import Tensor

from botorch_risk.plot_style import COLORS, STYLE

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLORS
GREY, LIGHT = "0.45", "0.65"

LOOKS: dict[str, tuple[str, str]] = {  # of a method: its colour and its line
    "RAHBO": (BLUE, "-"),
    "RAHBO-US": (ORANGE, "--"),
    "SBO-KDE": (BLUE, "-"),
    "DRBO-KDE": (ORANGE, "--"),
    "DRBO-MMD": (GREEN, "-"),
    "DRBO-MMD-minimax": (GREEN, ":"),
    "StableOpt": (VERMILION, "-."),
    "V-UCB-Prob": (BLUE, "-"),
    "V-UCB-Unif": (ORANGE, "--"),
    "V-UCB-Prob-constant-width": (BLUE, ":"),
    "V-UCB-Unif-constant-width": (ORANGE, ":"),
    "V-UCB-Prob-beta-as-width": (VERMILION, "-."),
    "V-UCB-Prob-likelihood": (PURPLE, "--"),
    "V-UCB-Prob-LNSO": (SKY, "--"),
    "V-UCB-observed": (SKY, ":"),
    "rho-KG-apx": (GREEN, "-"),
    "qLogNEI-VaR": (PURPLE, "--"),
    "contextual-GP-UCB": (GREY, "-."),
    "contextual-GP-UCB-constant-width": (GREY, ":"),
    "TRUVAR": (BLUE, "-"),
    "TRUVAR-a-1": (SKY, "--"),
    "TRUVAR-not-monotone": (VERMILION, "-."),
    "GCHK": (VERMILION, "-."),
    "GCHK-1e-06": (PURPLE, "-."),
    "GCHK-0.001": (ORANGE, "-."),
    "GCHK-0.05": (VERMILION, "--"),
    "straddle": (GREEN, "--"),
    "variance": (LIGHT, ":"),
    "EI": (GREEN, "--"),
    "ES": (ORANGE, "-"),
    "MES": (ORANGE, ":"),
    "MRS": (PURPLE, "-."),
    "UHE-BO": (BLUE, "-"),
    "pseudo-data": (ORANGE, "--"),
    "Sobol pseudo-data": (SKY, "-"),
    "Random+EXP3": (SKY, "-"),
    "RA-BO": (GREEN, "-."),
    "MAP": (VERMILION, "--"),
    "MCMC": (PURPLE, "-"),
    "UHE-BO-gain": (GREEN, ":"),
    "UHE-BO-improved": (PURPLE, "--"),
    "Random+EXP3-improved": (SKY, "--"),
    "A-GP-UCB": (GREY, "-"),
    "A-GP-UCB-one-step": (ORANGE, "-"),
    "Wang-de-Freitas": (GREY, "--"),
    "Portfolio": (LIGHT, "-."),
    "GP-UCB": (GREY, "-."),
    "Random": (LIGHT, ":"),
    "random": (LIGHT, ":"),
}


def panels(
    num_panels: int, columns: int = 3, height: float = 3.4, width: float = 4.7
) -> tuple[Figure, list[Any]]:
    r"""A figure of panels of a size in inches, lettered if there are several, without pyplot."""
    lines = -(-num_panels // columns)
    columns = min(columns, num_panels)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * lines + 0.6), layout="constrained")
        every = list(figure.subplots(lines, columns, squeeze=False).flatten())
    letters = ascii_lowercase if num_panels > 1 else ""
    for axes, letter in zip(every[:num_panels], letters, strict=False):
        axes.set_title(f"({letter})", loc="left", fontweight="bold")
    for axes in every[num_panels:]:
        axes.set_axis_off()
    return figure, every[:num_panels]


def draw_mean(
    axes: Any,
    values: Tensor,
    label: str,
    x: Tensor | None = None,
    first: int = 0,
    shown: str | None = None,
) -> None:
    r"""The mean over seeds of values `R x T`, with its Student-t interval, 95 %.

    On a logarithmic axis, set before, a band ends at a tenth of the mean.

    Args:
        axes: What is drawn on.
        values: One row for each seed.
        label: The method, with or without `-paper`.
        x: Where the values are, `T`; default: the rounds from `first` on.
        first: The first round.
        shown: What the legend says; default: the method.
    """
    value = mean_and_standard_error(values)
    x = torch.arange(first, first + values.shape[-1]) if x is None else x
    draw_band(axes, x, value.mean, value.half_width, label, shown)


def draw_band(
    axes: Any, x: Tensor, mean: Tensor, half_width: Tensor, label: str, shown: str | None = None
) -> None:
    r"""A line with its band, as `draw_mean` draws them, where they are known.

    Args:
        axes: What is drawn on.
        x: Where they are, `T`.
        mean: `T`.
        half_width: Of the interval, `T`.
        label: As in `draw_mean`.
        shown: As in `draw_mean`.
    """
    label = label.removesuffix("-paper")
    color, line = LOOKS[label]
    low, high = mean - half_width, mean + half_width
    if axes.get_yscale() == "log":
        low = low.maximum(mean / 10)
    axes.plot(x, mean, color=color, linestyle=line, label=shown or label)
    axes.fill_between(x, low, high, color=color, alpha=0.12, lw=0)


_OF_A_LINE, _OF_A_LETTER = 0.6, 0.07  # inches of an entry in a legend


def finish(figure: Figure, path: Path, title: str = "") -> None:
    r"""One legend below all panels, and the picture as PNG.

    Args:
        figure: Of `panels`.
        path: Without a suffix.
        title: In words; what is drawn, and of how many seeds.
    """
    every = {
        label: line
        for axes in figure.axes
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if every:
        width = figure.get_figwidth()
        widest = _OF_A_LINE + _OF_A_LETTER * max(map(len, every))
        figure.legend(
            every.values(),
            every.keys(),
            loc="outside lower center",
            ncols=max(1, min(round(width / 3), int(width / widest), len(every))),
            frameon=False,
        )
    if title:
        figure.suptitle(title, fontsize=11)
    save_png(figure, path.with_suffix(".png"), dpi=200)


def seeds_of(curves: Iterable[Tensor]) -> str:
    r"""In words, of how many seeds curves are, and what their bands are."""
    numbers: Sequence[int] = sorted({len(values) for values in curves}, reverse=True)
    return f"{' and '.join(map(str, numbers))} seeds, mean and {INTERVAL}"
