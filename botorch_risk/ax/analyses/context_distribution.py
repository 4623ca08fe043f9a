r"""The distribution of the observed contexts, as a card."""

import math
from typing import Any

import pandas as pd
import torch
from ax.analysis.plotly.color_constants import AX_BLUE
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.exceptions.core import UnsupportedError
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from botorch_risk.ax.analyses.fitted_analysis import Fitted, FittedAnalysis
from botorch_risk.ax.fitted import model_of
from botorch_risk.environments import KernelDensity, KernelDensityEnvironment
from botorch_risk.models import RobustModel

FEWEST_POINTS, MOST_POINTS = 201, 4001  # of each curve
ROW_HEIGHT = 300  # pixels


class ContextDistributionPlot(FittedAnalysis):
    r"""The kernel density of each context on its own, as the strategy has learnt it.

    For experiments with an uncertain context; its observed values are the ticks.

    The DataFrame has one row for each point of the curves and for each observed context:
        - context: Its name
        - value: The value of the context
        - density: The density at this value, in inverse units of the context
        - sampled: Whether the value was observed
        - trial_index: The trial that observed it; -1 on the curves
    """

    def _part(self, fitted: Fitted) -> Any:
        model = model_of(fitted.adapter, fitted.metric)
        if not isinstance(model, RobustModel):
            raise UnsupportedError(
                f"Expected a strategy that learns the distribution of contexts, such as "
                f"`under_uncertain_context`. Got a {type(model).__name__} of {fitted.metric!r}."
            )
        environment = model.reductions[0].environment
        if not isinstance(environment, KernelDensityEnvironment):
            raise UnsupportedError(
                "Expected contexts whose kernel density is learnt. Got a "
                f"{type(environment).__name__}."
            )
        if environment.at_bounds == "clip":
            raise UnsupportedError(
                "Expected a distribution with a density: `at_bounds` 'truncate' or 'reflect'. Got "
                f"{environment.at_bounds!r}."
            )
        return environment.density

    def _card(self, fitted: Fitted, part: Any) -> PlotlyAnalysisCard:
        generator: Any = fitted.adapter.generator
        names = list(generator.contexts)
        observed = fitted.adapter.observed_contexts
        marginals = [_marginal(part, column) for column in range(len(names))]
        table = pd.concat(
            [
                _rows(name, marginal, observed[name])
                for name, marginal in zip(names, marginals, strict=True)
            ],
            ignore_index=True,
        )
        widths = ", ".join(
            f"{width:.3g} of {name}"
            for width, name in zip(part.bandwidth.tolist(), names, strict=True)
        )
        return self._plotly_card(
            title=f"Distribution of {', '.join(names)}",
            subtitle=f"The kernel density of {len(observed)} observed contexts (ticks), over which "
            f"the strategy takes the risk of {fitted.metric}. Bandwidth: {widths}.",
            table=table,
            figure=_figure(table, names),
        )


def _marginal(density: KernelDensity, column: int) -> KernelDensity:
    r"""The distribution of one context; exact, since the kernels are products."""
    one = slice(column, column + 1)
    bounds = None if density.bounds is None else density.bounds[:, one]
    return KernelDensity(
        density.observed[:, one], density.bandwidth[one], bounds, density.at_bounds
    )


def _rows(name: str, density: KernelDensity, observed: pd.Series) -> pd.DataFrame:
    r"""The curve and the observed values of one context."""
    assert density.bounds is not None
    lower, upper = density.bounds.squeeze(-1).tolist()
    per_bandwidth = 2 * (upper - lower) / density.bandwidth.item()  # two points a bandwidth
    size = min(max(FEWEST_POINTS, math.ceil(per_bandwidth) + 1), MOST_POINTS)
    curve = torch.linspace(lower, upper, size, dtype=density.observed.dtype)
    seen = torch.tensor(observed.to_numpy()).to(curve)
    values = torch.cat([curve, seen])
    trials = [*[-1] * size, *observed.index.get_level_values("trial_index")]
    return pd.DataFrame(
        {
            "context": name,
            "value": values.tolist(),
            "density": density.log_prob(values.unsqueeze(-1)).exp().tolist(),
            "sampled": [trial >= 0 for trial in trials],
            "trial_index": trials,
        }
    )


def _figure(table: pd.DataFrame, names: list[str]) -> go.Figure:
    figure = make_subplots(rows=len(names), cols=1)
    for row, name in enumerate(names, start=1):
        of_context = table[table["context"] == name]
        curve = of_context[~of_context["sampled"]]
        seen = of_context[of_context["sampled"]]
        line = go.Scatter(
            x=curve["value"],
            y=curve["density"],
            mode="lines",
            fill="tozeroy",
            line={"color": AX_BLUE},
            name="density",
        )
        ticks = go.Scatter(
            x=seen["value"],
            y=[0.0] * len(seen),
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 14, "color": "black"},
            customdata=seen["trial_index"],
            hovertemplate="trial %{customdata}: %{x}<extra></extra>",
            name="observed",
        )
        figure.add_traces([line, ticks], rows=row, cols=1)
        figure.update_xaxes(title=name, row=row, col=1)
        figure.update_yaxes(title="density", rangemode="tozero", row=row, col=1)
    return figure.update_layout(showlegend=False, height=ROW_HEIGHT * len(names) + 100)
