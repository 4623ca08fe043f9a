r"""Pictures: regret and scores with Student-t intervals, a model of one input, classes of a domain.

Each function returns a `matplotlib.figure.Figure` to change or save. Colour-blind readers can tell
the colours of Okabe and Ito apart; line styles tell the strategies apart in print.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from torch import Tensor

from botorch_risk.papers import MeanVarianceSearch
from botorch_risk.plot_style import COLORS, STYLE
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.campaigns.whole_files import replacing
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import decision_bounds, decision_space
from botorch_risk_bench.metrics import INTERVAL, mean_and_standard_error
from botorch_risk_bench.reports.level_sets import LevelSetCurves, common_costs, score_at_cost
from botorch_risk_bench.reports.replay import final_strategy

_LINE_STYLES = ("-", "--", "-.", ":")
_NUM_COSTS = 200  # at which scores are drawn


def plot_regret(
    curves: Mapping[str, Tensor],
    ylabel: str,
    first_round: int = 0,
    log_scale: bool = False,
    title: str = "",
) -> Figure:
    r"""Plot the mean regret of each strategy with its 95 % Student-t interval.

    Args:
        curves: Regret by label, `R x T` each; lengths may differ.
        ylabel: What is shown, with its unit.
        first_round: The number of the round in the first column.
        log_scale: Whether the regret axis is logarithmic. Bands are cut off where they
            leave the positive range, at half of the smallest positive mean.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _empty_figure()
        means: list[float] = []
        for position, (label, values) in enumerate(curves.items()):
            rounds = range(first_round, first_round + values.shape[-1])
            mean = draw_band(axes, rounds, values, position, label)
            means += mean[mean > 0].tolist()
        if log_scale and means:
            axes.set_yscale("log", nonpositive="clip")
            axes.set_ylim(bottom=min(means) / 2)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        axes.margins(x=0.01)
        axes.set(xlabel="round", ylabel=_plain(ylabel), title=_plain(title))
        axes.legend(title=f"mean, {INTERVAL}", alignment="left")
    return figure


def plot_scores(
    curves: Mapping[str, LevelSetCurves], ylabel: str = "F1 score", title: str = ""
) -> Figure:
    r"""Plot the mean F1 score of each strategy against cost, with 95 % intervals.

    The costs are those that all runs have reached.

    Args:
        ylabel: What is shown.
    """
    costs = common_costs(curves, _NUM_COSTS)
    with matplotlib.rc_context(STYLE):
        figure, axes = _empty_figure()
        for position, (label, curve) in enumerate(curves.items()):
            draw_band(axes, costs.tolist(), score_at_cost(curve, costs), position, label)
        axes.margins(x=0.01)
        axes.set(xlabel="cost of all samples", ylabel=ylabel, title=title)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.02), min(high, 1.02))  # a band may leave the range of scores
        # Outside, as the curves of a step function leave no corner free.
        beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        axes.legend(title=f"mean, {INTERVAL}", alignment="left", **beside)
    return figure


def plot_model(
    x: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    noise_sd: ArrayLike,
    X: ArrayLike,
    Y: ArrayLike,
    xlabel: str = "x",
    ylabel: str = "outcome",
    title: str = "",
) -> Figure:
    r"""Plot a model of one input: mean, confidence band, noise band and evaluated points.

    Args:
        x: The grid, `n`.
        mean: The model's mean there, `n`.
        lower: The lower confidence bound of the mean, `n`.
        upper: The upper confidence bound of the mean, `n`.
        noise_sd: The standard deviation of the noise, `n`.
        X: The evaluated points, `m`.
        Y: Their repeats, `m x k`.
    """
    x, mean, lower, upper, noise_sd = map(np.asarray, (x, mean, lower, upper, noise_sd))
    X, Y = np.asarray(X), np.asarray(Y)
    grid = {values.shape for values in (x, mean, lower, upper, noise_sd)}
    if len(grid) > 1 or x.ndim != 1 or X.ndim != 1 or Y.shape[:-1] != X.shape:
        raise ValueError(
            "Expected `x`, `mean`, `lower`, `upper`, `noise_sd` to have shape `n`, `X` `m` and "
            f"`Y` `m x k`. Got {grid=}, {X.shape=}, {Y.shape=}."
        )
    with matplotlib.rc_context(STYLE):
        figure, axes = _empty_figure()
        blue, orange = COLORS[0], COLORS[4]
        noise = mean - 2 * noise_sd, mean + 2 * noise_sd
        axes.fill_between(x, *noise, color=orange, alpha=0.25, lw=0, label="mean ± 2 noise sd")
        axes.fill_between(x, lower, upper, color=blue, alpha=0.3, lw=0, label="confidence band")
        axes.plot(x, mean, color=blue, linewidth=1.8, label="model mean")
        axes.plot(np.repeat(X, Y.shape[-1]), Y.ravel(), ".", color="0.45", ms=4, label="repeats")
        means = np.ma.masked_invalid(Y).mean(axis=-1)  # over the repeats that came back
        axes.plot(X, means, "o", color="black", ms=5, mfc="white", label="their mean")
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axes.margins(x=0.01)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def plot_classes(
    domain: ArrayLike,
    high: ArrayLike,
    low: ArrayLike,
    path: ArrayLike,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
) -> Figure:
    r"""Plot a domain of two inputs by class, with the path of the measurements.

    A grid is drawn as cells, any other domain as dots.

    Args:
        domain: The points, `n x 2`.
        high: Which are above the level, `n`.
        low: Which are below it, `n`; the others are open.
        path: The points measured, in their order, `m x 2`; rows of NaN are left out.
    """
    domain, path = np.asarray(domain), np.asarray(path)
    high, low = np.asarray(high, dtype=bool), np.asarray(low, dtype=bool)
    fits = domain.ndim == path.ndim == 2 and domain.shape[1] == path.shape[1] == 2
    if not fits or not domain.shape[:1] == high.shape == low.shape:
        raise ValueError(
            "Expected `domain` to have shape `n x 2`, `high` and `low` `n`, `path` `m x 2`. "
            f"Got {domain.shape=}, {high.shape=}, {low.shape=}, {path.shape=}."
        )
    classes = {"high": (high, COLORS[4]), "open": (~high & ~low, "0.88"), "low": (low, COLORS[5])}
    (x, column), (y, row) = (np.unique(each, return_inverse=True) for each in domain.T)
    is_grid = len(x) * len(y) == len(domain)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure, axes = _empty_figure()
        if is_grid:
            cells = np.zeros((len(y), len(x)))
            cells[row, column] = low.astype(int) - high  # high, open, low
            colors = [color for _, color in classes.values()]
            colormap = ListedColormap(colors)
            axes.pcolormesh(x, y, cells, cmap=colormap, vmin=-1, vmax=1, shading="nearest")
        for name, (points, color) in classes.items():
            first, second = domain[points & (not is_grid)].T  # of a grid, the legend alone
            axes.scatter(first, second, s=14, marker="s", lw=0, color=color, label=name)
        taken = path[~np.isnan(path).any(axis=-1)]
        axes.plot(*taken.T, ".-", color="black", lw=0.7, ms=4, label="measurements")
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def plot_final_model(
    store: ExperimentRecords, definition: ExperimentDefinition, label: str, replicate: int = 0
) -> Figure | None:
    r"""Plot the final model of one replicate; None if there is nothing to draw."""
    problem = definition.problem()
    bounds = decision_bounds(problem)
    seeds = store.identity["seeds"]
    if bounds.shape[-1] != 1 or label not in store.labels():
        return None
    method = definition.build(label, decision_space(problem), seeds).method
    if not isinstance(method, MeanVarianceSearch):
        return None
    strategy = final_strategy(store, definition, label)
    unit = torch.linspace(0, 1, 300).to(bounds).reshape(1, -1, 1).expand(len(seeds), -1, 1)
    model = strategy.belief
    with torch.no_grad():
        lower, upper = (
            bound[replicate] for bound in model.confidence_bounds(unit, method.weights.beta)
        )
        noise = model.predicted_noise(unit)[replicate].squeeze(-1)
    records = store.rounds(label)
    X, Y = (
        torch.cat([getattr(record, name)[replicate] for record in records]) for name in ("X", "Y")
    )
    scale, offset = bounds[1] - bounds[0], bounds[0]
    return plot_model(
        (offset + scale * unit[replicate]).squeeze(-1).numpy(),
        ((lower + upper) / 2).numpy(),
        lower.numpy(),
        upper.numpy(),
        noise.sqrt().numpy(),
        X.squeeze(-1).numpy(),
        Y.numpy(),
        title=f"{definition.name}, {label}, seed {seeds[replicate]}, round {len(records) - 1}",
    )


def save_png(figure: Figure, path: str | Path, dpi: int = 130) -> Path:
    r"""Save a figure as a whole PNG and return its path."""
    with replacing(path) as written:
        figure.savefig(written, dpi=dpi, format="png")
    return Path(path)


def draw_band(axes: Axes, x: Sequence[float], values: Tensor, position: int, label: str) -> Tensor:
    r"""Draw the mean of `R x T` values with its 95 % Student-t interval, and return the mean.

    The label counts the replicates that have a value at the end, if some have none.
    """
    value = mean_and_standard_error(values)
    count = int(value.num_replicates[-1])
    label = _plain(label if count == len(values) else f"{label} ({count} of {len(values)})")
    color, style = COLORS[position % len(COLORS)], _LINE_STYLES[position % len(_LINE_STYLES)]
    low, high = value.mean - value.half_width, value.mean + value.half_width
    axes.plot(x, value.mean, color=color, linestyle=style, linewidth=1.8, label=label)
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    return value.mean


def _plain(text: str) -> str:
    r"""Text in which `$` is a currency: formulas begin with it otherwise."""
    return text.replace("$", r"\$")


def _empty_figure() -> tuple[Figure, Axes]:
    r"""A figure without pyplot: no display is needed and nothing has to be closed."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    return figure, figure.add_subplot()
