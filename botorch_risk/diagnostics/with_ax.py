r"""A card that shows how often a model's bands contain unseen data."""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from typing import Any

import pandas as pd
from ax.analysis.plotly.color_constants import AX_BLUE, BOTORCH_COLOR_SCALE
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.analysis.plotly.utils import LEGEND_POSITION
from plotly import graph_objects as go

from botorch_risk.ax.analyses.fitted_analysis import Fitted, FittedAnalysis, band
from botorch_risk.ax.fitted import model_of
from botorch_risk.diagnostics import coverage, leave_one_out, verdict
from botorch_risk.models import RobustModel

__all__ = ["CalibrationPlot"]

GRAY = "#808080"


class CalibrationPlot(FittedAnalysis):
    r"""The share of left-out rows within central bands of the model, at each level.

    Each row is predicted by the model without it; for a risk under contexts this is the model of
    the outcome. The verdict of `botorch_risk.diagnostics` is the subtitle.

    The DataFrame has one row for each level:
        - level: The probability of the band
        - coverage: The share of outcomes within it
        - noise_coverage: The share of sample variances within theirs, if there are any
        - lower, upper: With probability 95 %, the share lies in this range if the model is right
    """

    def _part(self, fitted: Fitted) -> Any:
        model = model_of(fitted.adapter, fitted.metric)
        return model.model if isinstance(model, RobustModel) else model

    def _card(self, fitted: Fitted, part: Any) -> PlotlyAnalysisCard:
        check = leave_one_out(part)
        shares = coverage(check)
        table = pd.DataFrame({"level": shares.levels, "coverage": shares.outcomes})
        if shares.sample_variances is not None:
            table["noise_coverage"] = shares.sample_variances
        table["lower"], table["upper"] = shares.lower, shares.upper
        return self._plotly_card(
            title=f"Calibration of {fitted.metric}",
            subtitle=f"{verdict(check).sentence} Each row is predicted from the others; the share "
            "of rows within a band should be near its level.",
            table=table,
            figure=_figure(table),
        )


def _figure(table: pd.DataFrame) -> go.Figure:
    level = table["level"]
    colors = {"coverage": AX_BLUE, "noise_coverage": BOTORCH_COLOR_SCALE[0]}
    names = {"coverage": "outcomes", "noise_coverage": "sample variances"}
    lines = [
        go.Scatter(
            x=level, y=table[column], mode="lines", line={"color": color}, name=names[column]
        )
        for column, color in colors.items()
        if column in table
    ]
    diagonal = go.Scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"color": GRAY, "dash": "dash"}, showlegend=False
    )
    range_of_right = band(level, table["lower"], table["upper"], GRAY, "95 % of right models")
    return go.Figure(
        [range_of_right, diagonal, *lines],
        layout=go.Layout(
            xaxis={"title": "level of the band", "range": [0, 1], "tickformat": ".0%"},
            yaxis={"title": "share of rows within it", "range": [0, 1.02], "tickformat": ".0%"},
            legend=LEGEND_POSITION,
        ),
    )
