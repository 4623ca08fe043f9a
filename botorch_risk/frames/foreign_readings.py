r"""Readings that other packages hold, as a table with named settings and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.arguments import as_data
from botorch_risk.extras import require_extra

_COUNT = "_count"  # of the tracking metric with the number of readings, as in `botorch_risk.ax`
_ARM, _READ = ["trial_index", "arm_name"], ["mean", "sem"]  # columns of Ax's data


class ForeignReadings(NamedTuple):
    r"""A table of readings, and what the other package knows of its columns.

    Attributes:
        frame: A DataFrame of settings, conditions and outcomes, one reading per row.
        settings: The settings, as `FrameExperiment` takes them; None if the source has none.
        outcomes: The outcome with its direction; None if the source has none.
        running: A DataFrame of settings that are being evaluated.
    """

    frame: Any
    settings: Mapping[str, Any] | None
    outcomes: Mapping[str, Any] | None
    running: Any = None


def foreign_readings(readings: Any, conditions: Sequence[str], settings: Any) -> ForeignReadings:
    r"""The readings of a DataFrame, an Optuna study, an Ax experiment or tensors.

    Raises:
        TypeError: If the readings have another type.
    """
    if hasattr(readings, "columns") and hasattr(readings, "index"):
        return ForeignReadings(readings, settings, None)
    if hasattr(readings, "trials") and hasattr(readings, "directions"):
        return _of_optuna(readings, conditions)
    experiment = getattr(readings, "_experiment", readings)  # of Ax's `Client`
    if hasattr(experiment, "search_space") and hasattr(experiment, "lookup_data"):
        return _of_ax(experiment, conditions)
    if isinstance(readings, tuple) and len(readings) == 2:
        return _of_tensors(*readings, conditions, settings)
    raise TypeError(
        "Expected a DataFrame, a study of Optuna, an experiment or a client of Ax, or tensors "
        f"(X, Y). Got {type(readings).__name__}."
    )


def _of_optuna(study: Any, conditions: Sequence[str]) -> ForeignReadings:
    r"""Completed trials are readings; pruned and failed ones are rows without a reading."""
    if len(study.directions) != 1:
        raise UnsupportedError(
            f"Expected a study of one objective. Got {len(study.directions)}: for several "
            "objectives see `robust.pareto_search`."
        )
    (name, *_), (direction, *_) = study.metric_names or ["value"], study.directions
    settings: dict[str, Any] = {}
    rows, running = [], []
    for trial in study.trials:
        for each, distribution in trial.distributions.items():
            described = _described(each, distribution)
            settings[each] = _wider(each, settings.get(each), described)
        if trial.state.name in ("RUNNING", "WAITING"):
            running.append(dict(trial.params))
            continue
        row = {**trial.params, name: trial.value if trial.state.name == "COMPLETE" else None}
        lacks = [each for each in conditions if each not in trial.user_attrs]
        if lacks and trial.state.name == "COMPLETE":
            raise InputDataError(
                f"Expected the condition {lacks[0]!r} in the user attributes of each trial. Got "
                f"none in trial {trial.number}."
            )
        rows.append({**row, **{each: trial.user_attrs.get(each) for each in conditions}})
    outcome = {name: "minimize" if direction.name == "MINIMIZE" else "maximize"}
    return _tabled(rows, running, settings, conditions, outcome)


def _tabled(
    rows: Sequence[Mapping[str, Any]],
    running: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    conditions: Sequence[str],
    outcome: Mapping[str, Any],
) -> ForeignReadings:
    r"""Rows as tables; without the settings that have one value, and with choices as labels."""
    pandas = require_extra("pandas", "botorch_risk[frames]")
    settings = {name: values for name, values in settings.items() if not _is_fixed(values)}
    columns = [*settings, *conditions, *outcome]
    frame = pandas.DataFrame([_labels(row, settings) for row in rows], columns=columns)
    asked = pandas.DataFrame([_labels(row, settings) for row in running], columns=[*settings])
    return ForeignReadings(frame, settings, outcome, asked.dropna())


def _is_fixed(values: Any) -> bool:
    r"""Whether a column has a single value, which is no setting."""
    return len(values) == 1 if isinstance(values, list) else values[0] == values[1]


def _described(name: str, distribution: Any) -> Any:
    r"""A distribution of Optuna as a column; integers are in steps, whatever their scale."""
    if hasattr(distribution, "choices"):
        return [_label(choice) for choice in distribution.choices]
    low, high = distribution.low, distribution.high
    if isinstance(low, int):
        return (low, high, distribution.step)
    if distribution.log:
        return (low, high, "log")
    return (low, high) if distribution.step is None else (low, high, distribution.step)


def _wider(name: str, before: Any, now: Any) -> Any:
    r"""A column that holds what both descriptions hold, as trials may have had other ranges."""
    if before is None or before == now:
        return now
    if type(before) is not type(now) or before[2:] != now[2:]:
        raise UnsupportedError(
            f"Expected one kind of {name!r} in all trials. Got {before} and {now}: pass `settings`."
        )
    if isinstance(now, list):
        return [*before, *(each for each in now if each not in before)]
    return (min(before[0], now[0]), max(before[1], now[1]), *now[2:])


def _label(value: Any) -> str | bool:
    r"""A choice as a label: numbers among choices have no order, and are text here."""
    return value if isinstance(value, bool) else str(value)


def _labels(row: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    r"""A row with its choices as labels."""
    chosen = {each for each, values in settings.items() if isinstance(values, list)}
    return {
        name: _label(value) if name in chosen and value is not None else value
        for name, value in row.items()
    }


def _of_ax(experiment: Any, conditions: Sequence[str]) -> ForeignReadings:
    r"""Arms of completed trials are readings, a mean of several as many; abandoned ones are not."""
    config = experiment.optimization_config
    names = [] if config is None else list(config.objective.metric_names)
    if len(names) != 1:
        raise UnsupportedError(f"Expected an experiment of one objective. Got {names}.")
    (name,) = names
    settings = {
        each.name: _parameter(each)
        for each in experiment.search_space.parameters.values()
        if not hasattr(each, "value")  # fixed
    }
    table = experiment.lookup_data().df.set_index("metric_name")
    measured = {key: own[_READ].to_dict("index") for key, own in table.groupby(_ARM)}
    rows, running = [], []
    for index, trial in experiment.trials.items():
        for arm in trial.arms:
            setting = {each: arm.parameters.get(each) for each in settings}
            if arm.name in {each.name for each in trial.abandoned_arms}:
                continue
            if not trial.status.is_terminal:
                running += [setting] if trial.status.is_running else []
                continue
            found = measured.get((index, arm.name), {})
            done = trial.status.is_completed or trial.status.is_early_stopped
            values = _readings_of(name, found) if done else [None]
            noted = {each: found.get(each, {}).get("mean") for each in conditions}
            if done and name in found and None in noted.values():
                lacks = [each for each, value in noted.items() if value is None]
                raise InputDataError(
                    f"Expected the condition {lacks[0]!r} as a tracking metric of each trial. Got "
                    f"none in trial {index}."
                )
            rows += [{**setting, **noted, name: value} for value in values]
    outcome = {name: "minimize" if config.objective.minimize else "maximize"}
    return _tabled(rows, running, settings, conditions, outcome)


def _parameter(parameter: Any) -> Any:
    r"""A parameter of Ax as a column."""
    if hasattr(parameter, "values"):
        return [_label(value) for value in parameter.values]
    low, high = parameter.lower, parameter.upper
    if parameter.parameter_type.name == "INT":
        return (low, high, 1)
    return (low, high, "log") if parameter.log_scale else (low, high)


def _readings_of(name: str, found: Mapping[str, Mapping[str, float]]) -> list[float | None]:
    r"""Readings with the mean of an arm; with its count, and the standard error of so many.

    A model of repeats takes from them their number, mean and variance alone.
    """
    if name not in found:
        return [None]
    mean, error = found[name]["mean"], found[name]["sem"]
    count = round(found.get(f"{name}{_COUNT}", {}).get("mean", 1))
    if count < 2 or not error >= 0:
        return [mean]
    pattern = torch.linspace(-1, 1, count, dtype=torch.double)
    deviation = error * count**0.5
    readings: list[float | None] = (mean + deviation * pattern / pattern.std()).tolist()
    return readings


def _of_tensors(X: Any, Y: Any, conditions: Sequence[str], settings: Any) -> ForeignReadings:
    r"""Rows `n x d` with conditions last, and readings `n`, `n x 1` or `n x k` of `y`."""
    X, Y = as_data(X, "X"), as_data(Y, "Y")
    Y = Y.unsqueeze(-1) if Y.dim() == 1 else Y
    if X.dim() != 2 or Y.dim() != 2 or len(X) != len(Y) or not Y.numel():
        raise InputDataError(
            f"Expected X of shape `n x d` and Y of shape `n`, `n x 1` or `n x k`. "
            f"Got {tuple(X.shape)}, {tuple(Y.shape)}."
        )
    if not isinstance(settings, Mapping):
        bounds: Tensor = as_data(settings, "settings")
        if bounds.dim() != 2 or len(bounds) != 2:
            raise InputDataError(
                f"Expected bounds `2 x d_x` for `settings`. Got {tuple(bounds.shape)}."
            )
        settings = {f"x{i}": tuple(pair) for i, pair in enumerate(bounds.mT.tolist())}
    names = [*settings, *conditions]
    if len(names) != X.shape[-1]:
        raise InputDataError(f"Expected X with the columns {names}. Got {X.shape[-1]} columns.")
    pandas = require_extra("pandas", "botorch_risk[frames]")
    frame = pandas.DataFrame(X.repeat_interleave(Y.shape[-1], dim=0).tolist(), columns=names)
    return ForeignReadings(frame.assign(y=Y.flatten().tolist()), settings, {"y": "maximize"})
