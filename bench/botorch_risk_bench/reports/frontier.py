r"""Show the benefit and cost of risk aversion, in a picture and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.reports.plots import COLORS


def recommended(store: ExperimentRecords, labels: Sequence[str]) -> dict[str, Tensor]:
    r"""The recommendations after the last round that all strategies have, `R x d` each."""
    made = {label: [record.recommendation for record in store.rounds(label)] for label in labels}
    last = min(map(len, made.values()))
    if last == 0:
        raise ValueError(f"Expected a completed round of {labels} in {store.path}. Got none.")
    return {label: points[last - 1] for label, points in made.items()}


def efficient(scores: Tensor) -> Tensor:
    r"""The decisions that no other decision beats in mean at no more deviation.

    Args:
        scores: Mean and standard deviation of each decision, `n x 2`.

    Returns:
        Their rows `m x 2`, by rising deviation and mean.
    """
    by_mean = scores[scores[:, 0].argsort(descending=True, stable=True)]
    rows = by_mean[by_mean[:, 1].argsort(stable=True)]  # of equal deviations, the best mean first
    best_before = rows[:, 0].cummax(dim=0).values.roll(1)
    best_before[0] = -torch.inf
    return rows[rows[:, 0] > best_before]


def mean_variance(scores: Tensor, risk_aversion: float) -> Tensor:
    r"""Mean minus weighted variance.

    Args:
        scores: Mean and standard deviation, `... x 2`.
        risk_aversion: The weight of the variance.
    """
    mean, deviation = scores.unbind(dim=-1)
    return mean - risk_aversion * deviation.square()


def bought_and_paid(averse: Tensor, neutral: Tensor, unit: str = "", digits: int = 0) -> str:
    r"""Say in half a sentence how much less deviation cost how much of the mean, paired by seed.

    Args:
        averse: Mean and standard deviation of what a risk-averse method recommends, `R x 2`.
        neutral: Scores of the risk-neutral recommendations, `R x 2`.
        unit: The unit of both, with a leading space if needed.
        digits: After the decimal point.
    """
    price, less_risk = (
        paired_difference(neutral[:, column], averse[:, column]) for column in (0, 1)
    )
    gain, cost = (
        f"{each.mean:.{digits}f} ± {each.half_width:.{digits}f}{unit}"
        for each in (less_risk, price)
    )
    means, deviations = (
        f"from {neutral[:, column].mean():.{digits}f} to {averse[:, column].mean():.{digits}f}"
        for column in (0, 1)
    )
    return (
        f"bought a standard deviation lower by {gain} ({deviations}) "
        f"and cost {cost} of the mean ({means})"
    )


def plot_frontier(
    possible: Tensor,
    reported: Mapping[str, Tensor],
    xlabel: str = "standard deviation",
    ylabel: str = "mean",
    title: str = "",
) -> Figure:
    r"""Plot mean against standard deviation: possible, efficient and recommended decisions.

    A dot is a possible decision, and the line joins the best ones by deviation. A disc is a
    recommended decision; its area is the number of seeds that recommend it.

    Args:
        possible: Mean and standard deviation of many decisions, `n x 2`.
        reported: Scores of the recommended decisions, `R x 2` for each label, in the order of the
            colours.
    """
    for scores in (possible, *reported.values()):
        if scores.dim() != 2 or scores.shape[-1] != 2:
            raise BotorchTensorDimensionError(
                f"Expected scores of shape `n x 2`, mean and deviation. Got {tuple(scores.shape)}."
            )
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(possible[:, 1], possible[:, 0], s=4, color="0.8", lw=0, label="possible")
    edge = efficient(possible)
    axes.plot(edge[:, 1], edge[:, 0], color="0.35", lw=1.6, label="the best, in hindsight")
    axes.scatter([], [], s=40, color="0.35", label="recommended; area: number of seeds")
    right = max(edge[:, 1].max(), *(scores[:, 1].max() for scores in reported.values()))
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title, xlim=(None, 1.4 * right.item()))
    for scores, color in zip(reported.values(), COLORS, strict=False):
        points, counts = scores.unique(dim=0, return_counts=True)
        look: dict[str, Any] = {"color": color, "edgecolors": "white", "zorder": 3}
        axes.scatter(points[:, 1], points[:, 0], s=40 * counts, **look)
    _write_labels(axes, reported)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="best", frameon=False, fontsize=9)
    return figure


def _write_labels(axes: Axes, reported: Mapping[str, Tensor]) -> None:
    r"""Write labels to the right of their groups, each below the one before."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    means = {label: scores[:, 0].mean().item() for label, scores in reported.items()}
    box = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8}
    color = dict(zip(reported, COLORS, strict=False))
    height = torch.inf
    for label in sorted(means, key=lambda label: -means[label]):
        height = min(means[label] - 0.03 * (high - low), height - 0.07 * (high - low))
        end = max(
            scores[:, 1].max().item()
            for other, scores in reported.items()
            if abs(means[other] - means[label]) < 0.12 * (high - low)
        )
        style: dict[str, Any] = {"color": color[label], "weight": "bold", "va": "center"}
        axes.text(end + 0.035 * (right - left), height, label, bbox=box, zorder=4, **style)
