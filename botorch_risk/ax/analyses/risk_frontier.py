r"""The risk of the arms against their mean, as a card."""

from typing import Any

import pandas as pd
import torch
from ax.analysis.plotly.color_constants import AX_BLUE, BOTORCH_COLOR_SCALE, LIGHT_AX_BLUE
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.analysis.plotly.utils import LEGEND_POSITION, truncate_label
from botorch.utils.multi_objective.pareto import is_non_dominated
from plotly import graph_objects as go
from torch import Tensor

from botorch_risk.ax.analyses.fitted_analysis import (
    Fitted,
    FittedAnalysis,
    TradeOff,
    check_has_risk,
    trade_off,
)
from botorch_risk.ax.best_arm import Rule, check_rule, recommended_arm
from botorch_risk.ax.fitted import confidence_bound, encoded
from botorch_risk.ax.trials import measured_arms

STAR = {"symbol": "star", "size": 16}


class RiskFrontierPlot(FittedAnalysis):
    r"""The risk of each completed arm against its mean, by the model with all data so far.

    If the noise is learnt, the risk is the standard deviation of one reading. Under contexts it is
    the strategy's risk measure, or, if that is the expectation, the standard deviation over the
    contexts. The card marks the arms that no other arm beats in both, among those that meet the
    outcome constraints by their posterior means, and the arm that `best_arm` recommends.

    The DataFrame has one row for each arm, in units of the metric:
        - trial_index: The first completed trial of the arm
        - arm_name
        - METRIC_NAME_mean: The posterior mean
        - METRIC_NAME_noise_sd, METRIC_NAME_risk or METRIC_NAME_context_sd: The risk
        - feasible: Whether it meets the outcome constraints by their posterior means
        - non_dominated: Whether no other feasible arm is better in one and no worse in the other
        - recommended: Whether `best_arm` recommends it
    """

    def __init__(self, rule: Rule = "lower_confidence_bound") -> None:
        r"""Chooses the rule.

        Args:
            rule: The rule by which an arm is recommended, as in `best_arm`.
        """
        check_rule(rule)
        super().__init__()
        self.rule: Rule = rule

    def _part(self, fitted: Fitted) -> Any:
        measured_arms(fitted.experiment)  # refuses an experiment without one
        bound = confidence_bound(fitted.adapter)
        check_has_risk(bound)
        return bound

    def _card(self, fitted: Fitted, part: Any) -> PlotlyAnalysisCard:
        arms = measured_arms(fitted.experiment)
        X = encoded(fitted.adapter, [arm.parameters for _, arm in arms])
        config: Any = fitted.experiment.optimization_config
        found = trade_off(part, X, config.objective.minimize)
        best = recommended_arm(fitted.experiment, fitted.adapter, self.rule)
        mean, risk = f"{fitted.metric}_mean", f"{fitted.metric}_{found.name}"
        table = pd.DataFrame(
            {
                "trial_index": [index for index, _ in arms],
                "arm_name": [arm.name for _, arm in arms],
                mean: found.mean.tolist(),
                risk: found.risk.tolist(),
                "feasible": found.feasible.tolist(),
                "non_dominated": _non_dominated(found).tolist(),
                "recommended": [arm.parameters == best.parameters for _, arm in arms],
            }
        )
        better = ["larger" if sign > 0 else "smaller" for sign in found.signs]
        return self._plotly_card(
            title=f"Risk of {fitted.metric} vs. its mean",
            subtitle=f"A {better[0]} mean and a {better[1]} {found.label} are better. The arms on "
            "the frontier are those that no other one beats in both; the star is the arm that "
            f"`best_arm` recommends, Arm {arms[table['recommended'].argmax()][1].name}.",
            table=table,
            figure=_figure(table, mean, risk, found.label),
        )


def _non_dominated(found: TradeOff) -> Tensor:
    r"""Whether arms are feasible, and no feasible one dominates them, `n`."""
    signs = found.mean.new_tensor(found.signs)
    values = signs * torch.stack([found.mean, found.risk], dim=-1)
    optimal = torch.zeros_like(found.feasible)
    optimal[found.feasible] = is_non_dominated(values[found.feasible], deduplicate=False)
    return optimal


def _figure(table: pd.DataFrame, mean: str, risk: str, label: str) -> go.Figure:
    metric = truncate_label(mean.removesuffix("_mean"))
    optimal, feasible = table["non_dominated"], table["feasible"]
    groups: list[tuple[str, pd.DataFrame, dict[str, Any]]] = [
        ("frontier", table[optimal].sort_values(mean), {"color": AX_BLUE}),
        ("dominated", table[feasible & ~optimal], {"color": LIGHT_AX_BLUE}),
        ("likely infeasible", table[~feasible], {"color": "gray", "symbol": "circle-open"}),
        ("recommended", table[table["recommended"]], {**STAR, "color": BOTORCH_COLOR_SCALE[0]}),
    ]
    traces = [
        go.Scatter(
            x=rows[mean],
            y=rows[risk],
            mode="lines+markers" if name == "frontier" else "markers",
            line={"color": AX_BLUE, "dash": "dot"},
            marker={"size": 9, **marker},
            customdata=rows[["arm_name", "trial_index"]],
            hovertemplate="Trial %{customdata[1]}, Arm %{customdata[0]}: mean %{x:.4g}, "
            f"{label} %{{y:.4g}}<extra></extra>",
            name=name,
        )
        for name, rows, marker in groups
        if len(rows)
    ]
    axes = {"xaxis_title": f"mean of {metric}", "yaxis_title": f"{label} of {metric}"}
    return go.Figure(traces, layout=go.Layout(legend=LEGEND_POSITION, **axes))
