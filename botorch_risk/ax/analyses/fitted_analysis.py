r"""What the cards have in common: each shows a part of a strategy's fitted model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pandas as pd
from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.analysis.plotly.utils import select_metric
from ax.analysis.utils import validate_experiment
from ax.core.experiment import Experiment
from ax.exceptions.core import AxError, DataRequiredError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions.errors import BotorchError, ModelFittingError
from plotly import graph_objects as go

from botorch_risk.ax.fitted import fitted_adapter
from botorch_risk.ax.observed import ObservedAdapter

# Of the strategy, and of data from which a model cannot be built yet.
NOT_APPLICABLE = (AxError, BotorchError, ModelFittingError, ValueError)


@dataclass(frozen=True)
class Fitted:
    r"""An experiment, the adapter that is fitted to all its data, and the metric of a card.

    Args:
        experiment: With data.
        adapter: Of a strategy of this package.
        metric: The name of a metric.
    """

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
        r"""Why the card cannot be drawn, or None where it can."""
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
        r"""The card.

        Args:
            experiment: With a completed trial.
            generation_strategy: Of this package.
            adapter: A fitted one, in place of the strategy's.

        Raises:
            AxError: If the strategy has no such part, as `validate_applicable_state` says.
            InputDataError: If the model cannot be built from the data, likewise.
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
        r"""What the card shows; raises an error of Ax where the model has no such part."""

    @abstractmethod
    def _card(self, fitted: Fitted, part: Any) -> PlotlyAnalysisCard: ...

    def _plotly_card(
        self, title: str, subtitle: str, table: pd.DataFrame, figure: go.Figure
    ) -> PlotlyAnalysisCard:
        r"""A card under the name of the class, as Ax has it."""
        return create_plotly_analysis_card(type(self).__name__, title, subtitle, table, figure)
