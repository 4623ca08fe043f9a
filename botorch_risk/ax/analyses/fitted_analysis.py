r"""The base of the cards: each shows a part of a strategy's fitted model."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import torch
from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.analysis.plotly.utils import get_scatter_point_color, select_metric
from ax.analysis.utils import validate_experiment
from ax.core.experiment import Experiment
from ax.exceptions.core import AxError, DataRequiredError, UnsupportedError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions.errors import BotorchError, ModelFittingError
from plotly import graph_objects as go
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.ax.acquisition import parts_of
from botorch_risk.ax.fitted import fitted_adapter
from botorch_risk.ax.observed import ObservedAdapter
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import Expectation


def band(
    x: Sequence[float], lower: Sequence[float], upper: Sequence[float], color: str, name: str
) -> go.Scatter:
    r"""The area between two curves."""
    return go.Scatter(
        x=[*x, *reversed(list(x))],  # there along the upper curve, and back along the lower one
        y=[*upper, *reversed(list(lower))],
        fill="toself",
        fillcolor=get_scatter_point_color(color, ci_transparency=True),
        mode="none",
        hoverinfo="skip",
        name=name,
    )


class TradeOff(NamedTuple):
    r"""The mean and the risk of points, in units of the metric.

    Args:
        mean: `n`, the posterior mean; under contexts, its expectation.
        risk: `n`, the risk.
        feasible: `n`, whether all constraints hold by the posterior mean.
        name: The name of the risk, for a column.
        label: The name of the risk, for an axis.
        signs: For the mean and the risk, 1 if larger is better and -1 otherwise.
    """

    mean: Tensor
    risk: Tensor
    feasible: Tensor
    name: str
    label: str
    signs: tuple[int, int]


def check_has_risk(bound: Any) -> None:
    r"""Raises UnsupportedError unless `trade_off` knows the bound."""
    objective = parts_of(bound).objective
    known = isinstance(objective, RiskUpperConfidenceBound)
    if not (known or isinstance(objective.model, MeanVarianceGP)):
        raise UnsupportedError(
            "Expected a strategy with a risk of the noise or of a context. Got a strategy for "
            f"{type(objective).__name__}."
        )


def trade_off(bound: Any, X: Tensor, minimize: bool) -> TradeOff:
    r"""The mean and the risk of points.

    If the noise is learnt, the risk is the standard deviation of one reading's noise. Under
    contexts it is the strategy's risk measure of the posterior mean; if that is the expectation,
    which equals the mean, it is the standard deviation over the contexts.

    Args:
        X: `n x d` points as the strategy's models take them.
    """
    parts, sign = parts_of(bound), -1 if minimize else 1
    objective, constraints, X = parts.objective, parts.constraints, parts.decisions(X)
    feasible = torch.ones(len(X), dtype=torch.bool)
    if constraints is not None:
        feasible = constraints.feasible(X, "mean")
    with torch.no_grad():
        if isinstance(objective.model, MeanVarianceGP):
            noise = objective.model.predicted_noise(X).squeeze(-1)
            mean = objective.model.mean_marginals.mean(X)
            label = "standard deviation of a reading"
            return TradeOff(mean, noise.sqrt(), feasible, "noise_sd", label, (sign, -1))
        lower, upper, weights = objective.pointwise_bounds(X)
        values = (lower + upper) / 2  # of the negative metric if it is minimised
        mean = (weights * values).sum(dim=-1)
        if isinstance(objective.risk_measure, Expectation):
            spread = (weights * (values - mean.unsqueeze(-1)).square()).sum(dim=-1).sqrt()
            label = "standard deviation over the contexts"
            return TradeOff(sign * mean, spread, feasible, "context_sd", label, (sign, -1))
        risk, label = objective.mean(X), type(objective.risk_measure).__name__
        return TradeOff(sign * mean, sign * risk, feasible, "risk", label, (sign, sign))


# Of the strategy, and of data from which a model cannot be built yet.
NOT_APPLICABLE = (AxError, BotorchError, ModelFittingError, ValueError)


@dataclass(frozen=True)
class Fitted:
    r"""An experiment, the adapter fitted to all its data, and the metric of a card."""

    experiment: Experiment
    adapter: ObservedAdapter
    metric: str


class FittedAnalysis(Analysis, ABC):
    r"""An analysis of a strategy of this package, fitted to all data so far.

    Ax's own analyses take the model of the last candidate. A subclass says which part of the model
    it shows, and draws it.
    """

    def __init__(self, metric_name: str | None = None) -> None:
        r"""Chooses the metric.

        Args:
            metric_name: The metric of the card; by default the objective.
        """
        self.metric_name = metric_name

    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        r"""Why the card cannot be drawn, or None if it can."""
        try:
            self._part(self._fitted(experiment, generation_strategy, adapter))
        except NOT_APPLICABLE as error:
            return str(error)
        return None

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> PlotlyAnalysisCard:
        r"""Draw the card.

        Args:
            experiment: An experiment with a completed trial.
            generation_strategy: A strategy of this package.
            adapter: A fitted adapter to use instead of the strategy's.

        Raises:
            AxError: If the card cannot be drawn; `validate_applicable_state` gives the reason.
        """
        fitted = self._fitted(experiment, generation_strategy, adapter)
        return self._card(fitted, self._part(fitted))

    def _fitted(
        self,
        experiment: Experiment | None,
        generation_strategy: GenerationStrategy | None,
        adapter: Adapter | None,
    ) -> Fitted:
        reason = validate_experiment(experiment, require_trials=True, require_data=True)
        if experiment is None or reason is not None:
            raise DataRequiredError(str(reason))
        metric = self.metric_name or select_metric(experiment)
        return Fitted(experiment, fitted_adapter(experiment, generation_strategy, adapter), metric)

    @abstractmethod
    def _part(self, fitted: Fitted) -> Any:
        r"""The content of the card; raises an Ax error if the model has no such part."""

    @abstractmethod
    def _card(self, fitted: Fitted, part: Any) -> PlotlyAnalysisCard: ...

    def _plotly_card(
        self, title: str, subtitle: str, table: pd.DataFrame, figure: go.Figure
    ) -> PlotlyAnalysisCard:
        r"""A card named after the class, as in Ax."""
        return create_plotly_analysis_card(type(self).__name__, title, subtitle, table, figure)
