r"""Parts of figures that several cards draw."""

from __future__ import annotations

from collections.abc import Sequence

from ax.analysis.plotly.utils import get_scatter_point_color
from plotly import graph_objects as go


def band(
    x: Sequence[float], lower: Sequence[float], upper: Sequence[float], color: str, name: str
) -> go.Scatter:
    r"""The area between two curves.

    Args:
        x: Ascending.
        lower: The lower curve at each.
        upper: The upper curve at each.
        color: Hexadecimal; the area is half transparent.
        name: For the legend.

    Example:
        >>> band([0, 1], [2, 3], [4, 5], "#808080", "95 %").y
        (4, 5, 3, 2)
    """
    return go.Scatter(
        x=[*x, *reversed(list(x))],  # there along the upper curve, and back along the lower one
        y=[*upper, *reversed(list(lower))],
        fill="toself",
        fillcolor=get_scatter_point_color(color, ci_transparency=True),
        mode="none",
        hoverinfo="skip",
        name=name,
    )
