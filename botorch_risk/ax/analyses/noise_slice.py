r"""The noise of a reading along one parameter, as a card."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch
from ax.analysis.plotly.color_constants import AX_BLUE
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.analysis.plotly.surface.utils import (
    get_features_for_slice_or_contour,
    get_parameter_values,
    is_axis_log_scale,
)
from ax.analysis.plotly.utils import LEGEND_POSITION, truncate_label
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
    TParamValue,
)
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError, UserInputError
from plotly import graph_objects as go
from torch import Tensor

from botorch_risk.ax.analyses.fitted_analysis import Fitted, FittedAnalysis, band
from botorch_risk.ax.best_arm import recommended_arm
from botorch_risk.ax.fitted import encoded, model_of
from botorch_risk.models import MeanVarianceGP

BAND_BETA = 1.96**2  # squared width of bands of 95 %


class NoiseSlicePlot(FittedAnalysis):
    r"""The predicted standard deviation of one reading along a parameter, with its 95 % band.

    Points are the standard deviations of the readings of each arm; arms differ from the slice in
    the other parameters, so they need not lie on the curve.

    The DataFrame has one row for each point of the curve and for each arm, in units of the metric:
        - PARAMETER_NAME: The value of the parameter
        - METRIC_NAME_noise_sd: The predicted standard deviation of one reading; for an arm, at the
          arm itself
        - METRIC_NAME_noise_sd_lower, METRIC_NAME_noise_sd_upper: Its 95 % band
        - METRIC_NAME_observed_sd: The standard deviation of the readings, if there are several
        - METRIC_NAME_count: The number of readings
        - sampled: Whether the row is an arm
        - arm_name, trial_index: "unsampled" and -1 on the curve; for an arm that was repeated, its
          first trial
    """

    def __init__(
        self,
        parameter_name: str,
        metric_name: str | None = None,
        fixed_values: Mapping[str, TParamValue] | None = None,
    ) -> None:
        r"""Chooses the slice.

        Args:
            parameter_name: The parameter on the x-axis.
            metric_name: A metric that is read several times; by default the objective.
            fixed_values: Values of the other parameters; by default as in the arm that `best_arm`
                recommends.
        """
        super().__init__(metric_name)
        self.parameter_name = parameter_name
        self.fixed_values = dict(fixed_values or {})

    def _part(self, fitted: Fitted) -> Any:
        model = model_of(fitted.adapter, fitted.metric)
        if not isinstance(model, MeanVarianceGP):
            raise UnsupportedError(
                "Expected a model that learns the noise, such as `risk_averse`'s MeanVarianceGP. "
                f"Got a {type(model).__name__} of {fitted.metric!r}."
            )
        self._check_parameters(fitted.experiment.search_space)
        others = fitted.experiment.search_space.parameters.keys() - {self.parameter_name}
        if others <= self.fixed_values.keys():
            return model, self.fixed_values
        best = recommended_arm(fitted.experiment, fitted.adapter, "lower_confidence_bound")
        return model, {**best.parameters, **self.fixed_values}

    def _card(self, fitted: Fitted, part: Any) -> PlotlyAnalysisCard:
        model, fixed = part
        name, metric = self.parameter_name, fitted.metric
        curve = self._curve(fitted, model, fixed)
        arms = _arms(fitted, model, name)
        at = ", ".join(f"{each} = {_short(fixed[each])}" for each in fixed if each != name)
        return self._plotly_card(
            title=f"Noise of {metric} vs. {name}",
            subtitle=f"The predicted standard deviation of one reading of {metric}"
            f"{f' at {at}' if at else ''}, with its 95 % band. Points are the standard deviations "
            "of the readings of each arm, whose other parameters may differ from the slice.",
            table=pd.concat([curve, arms], ignore_index=True),
            figure=_figure(curve, arms, fitted.experiment.search_space[name], metric),
        )

    def _check_parameters(self, space: SearchSpace) -> None:
        r"""Raises UserInputError unless the search space has the slice."""
        known = {
            name: parameter
            for name, parameter in space.parameters.items()
            if not isinstance(parameter, DerivedParameter)
        }
        for name in (self.parameter_name, *self.fixed_values):
            if name not in known:
                raise UserInputError(f"Expected a parameter in {list(known)}. Got {name!r}.")
        axis = known[self.parameter_name]
        is_ordered = isinstance(axis, ChoiceParameter) and axis.is_ordered
        if not (isinstance(axis, RangeParameter) or is_ordered):
            raise UserInputError(
                f"Expected a range or an ordered choice on the x-axis. Got the "
                f"{type(axis).__name__} {axis.name!r}."
            )
        for name, value in self.fixed_values.items():
            if not known[name].validate(value):
                raise UserInputError(
                    f"Expected a value that {name!r} takes in the search space. Got {value!r}."
                )

    def _curve(
        self, fitted: Fitted, model: MeanVarianceGP, fixed: Mapping[str, TParamValue]
    ) -> pd.DataFrame:
        space = fitted.experiment.search_space
        values = _values(space[self.parameter_name])
        points = [
            get_features_for_slice_or_contour({self.parameter_name: value}, space, dict(fixed))
            for value in values
        ]
        X = encoded(fitted.adapter, [point.parameters for point in points])
        found = pd.DataFrame({self.parameter_name: values}).join(_noise(model, X, fitted.metric))
        return found.assign(sampled=False, arm_name="unsampled", trial_index=-1)


def _values(parameter: Parameter) -> list[TParamValue]:
    r"""Values of a parameter over its range, whole numbers where it takes only these."""
    values: list[Any] = get_parameter_values(parameter)
    if parameter.parameter_type == ParameterType.INT:
        return sorted({round(value) for value in values})
    return values


def _noise(model: MeanVarianceGP, X: Tensor, metric: str) -> pd.DataFrame:
    r"""The standard deviation of one reading at `n x d` points, with its band."""
    with torch.no_grad():
        predicted = model.predicted_noise(X).squeeze(-1)
        lower, upper = model.noise_confidence_bounds(X, BAND_BETA)
    name = f"{metric}_noise_sd"
    variances = {name: predicted, f"{name}_lower": lower, f"{name}_upper": upper}
    return pd.DataFrame(
        {column: each.clamp_min(0.0).sqrt().tolist() for column, each in variances.items()}
    )


def _arms(fitted: Fitted, model: MeanVarianceGP, parameter: str) -> pd.DataFrame:
    r"""The arms that the model was fitted to, one row each."""
    index = list(fitted.adapter.get_training_data().arm_data.index)  # by trial and arm
    arms = [fitted.experiment.arms_by_name[name] for _, name in index]
    X = encoded(fitted.adapter, [arm.parameters for arm in arms])
    # A row of the model is an arm with all its readings; it is named by the first trial.
    distances = (model.train_X.unsqueeze(-2) - X).abs().sum(dim=-1)  # rows x arms
    first = distances.argmin(dim=-1).tolist()
    found = pd.DataFrame({parameter: [arms[row].parameters[parameter] for row in first]})
    metric = fitted.metric
    return found.join(_noise(model, model.train_X, metric)).assign(
        **{
            f"{metric}_observed_sd": model.train_variances.sqrt().squeeze(-1).tolist(),
            f"{metric}_count": model.train_counts.squeeze(-1).tolist(),
        },
        sampled=True,
        arm_name=[arms[row].name for row in first],
        trial_index=[index[row][0] for row in first],
    )


def _figure(
    curve: pd.DataFrame, arms: pd.DataFrame, parameter: Parameter, metric: str
) -> go.Figure:
    name, sd = parameter.name, f"{metric}_noise_sd"
    x = curve[name]
    line = go.Scatter(x=x, y=curve[sd], mode="lines", line={"color": AX_BLUE}, name="predicted")
    points = go.Scatter(
        x=arms[name],
        y=arms[f"{metric}_observed_sd"],
        mode="markers",
        marker={"color": "black", "symbol": "x"},
        customdata=arms[["arm_name", f"{metric}_count", sd]],
        hovertemplate="Arm %{customdata[0]}: %{y:.4g} of %{customdata[1]} readings; predicted "
        "%{customdata[2]:.4g}<extra></extra>",
        name="readings of an arm",
    )
    area = band(x, curve[f"{sd}_lower"], curve[f"{sd}_upper"], AX_BLUE, "95 % band")
    return go.Figure(
        [area, line, points],
        layout=go.Layout(
            xaxis={
                "title": truncate_label(name),
                "type": "log" if is_axis_log_scale(parameter) else None,
            },
            yaxis={
                "title": f"standard deviation of a reading of {truncate_label(metric)}",
                "rangemode": "tozero",
            },
            legend=LEGEND_POSITION,
        ),
    )


def _short(value: TParamValue) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
