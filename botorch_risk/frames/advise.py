r"""What readings from any package show: the best setting, what to read next, what to trust."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from botorch_risk.arguments import check_arguments, check_nonnegative
from botorch_risk.diagnostics import LeaveOneOut, Verdict, leave_one_out, verdict
from botorch_risk.environments import Environment
from botorch_risk.frames.foreign_readings import foreign_readings
from botorch_risk.frames.frame_experiment import FrameExperiment
from botorch_risk.frames.frame_layout import Direction
from botorch_risk.frames.named_columns import check_names
from botorch_risk.papers import rahbo
from botorch_risk.risk import Expectation
from botorch_risk.risk.measure import RiskMeasure
from botorch_risk.strategies.environment_risk import input_range
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.risk_search import risk_search
from botorch_risk.strategies.space import Box, unit_cube


@dataclass(frozen=True)
class Advice:
    r"""Advice drawn from readings of any package, in the names, units and signs of their table.

    For an outcome `y`, the column `y_risk` is the expected risk by samples of the hyperparameters,
    and `y_risk_lower` and `y_risk_upper` are the ends of a nominal 95 % interval.

    Args:
        anywhere: The best setting, tried or not, with its risk; one row of a DataFrame.
        tried: The best of the settings that were tried, in the same form.
        luckiest: The row with the best reading, often a lucky one, with the risk of its setting.
        next: The settings to read next, one per row.
        verdict: Whether the model can be trusted, and if not, why.
        experiment: The experiment, with which to continue: `ask`, `tell`, `predict`, `recommend`.
        outcome: The name of the outcome.
    """

    anywhere: Any
    tried: Any
    luckiest: Any
    next: Any
    verdict: Verdict
    experiment: FrameExperiment
    outcome: str

    def __str__(self) -> str:
        num_readings = int(self.experiment.data[self.outcome].notna().sum())
        reading = self.luckiest[self.outcome].iloc[0]
        parts = [
            f"The best setting, tried or not: {self._said(self.anywhere)}",
            f"The best one that was tried:    {self._said(self.tried)}",
            f"The luckiest of {num_readings} readings, {reading:.4g}: {self._said(self.luckiest)}",
            f"Read next:\n{self.next.to_string(index=False, float_format=_written)}",
            textwrap.fill(f"The model: {self.verdict.kind}. {self.verdict.sentence}", 88),
        ]
        return "\n".join(parts)

    def _said(self, row: Any) -> str:
        r"""A setting, and the interval of its risk."""
        (values,) = row.to_dict("records")
        settings = [name for name in self.tried if name in self.experiment.data]
        named = ", ".join(f"{name} {_written(values[name])}" for name in settings)
        name = f"{self.outcome}_risk"
        risk, lower, upper = (values[f"{name}{end}"] for end in ("", "_lower", "_upper"))
        return f"{named}\n  {name} {risk:.4g}, {lower:.4g} to {upper:.4g}"


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _strategy(
    frame: Any,
    settings: list[str],
    conditions: Mapping[str, Any],
    risk: RiskMeasure | float | None,
    environment: Environment | None,
    outcome: str,
) -> dict[str, Any]:
    r"""The strategy with the options that the readings and the risk call for."""
    if not conditions:
        if environment is not None:
            raise ValueError("Expected `conditions` with an `environment`. Got none.")
        if isinstance(risk, RiskMeasure):
            raise ValueError(
                "Expected `conditions` for a risk measure: measured columns that cannot be set. "
                f"Without `conditions`, `risk` is the weight of the variance. Got {risk}."
            )
        counts = frame.dropna().groupby(settings)[outcome].size()
        return {
            "strategy": rahbo,
            "risk_aversion": 0.0 if risk is None else risk,
            "num_repeats": max(2, round(counts.median())) if len(counts) else 2,
            "rule": "posterior_mean_everywhere",
        }
    measure = Expectation() if risk is None else risk
    if not isinstance(measure, RiskMeasure):
        raise ValueError(
            "Expected a measure of the risk over the conditions, such as "
            f"`ConditionalValueAtRisk(0.1)`. Got {risk!r}."
        )
    known = {} if environment is None else {"environment": environment}
    by_expectation = environment is not None and not measure.is_a_program
    rule = "expected_risk" if by_expectation else "posterior_mean"
    return {
        "strategy": risk_search,
        "risk_measure": measure,
        "reporting": f"{rule}_everywhere",
        **known,
    }


def _luckiest(
    experiment: FrameExperiment, settings: list[str], outcome: str, direction: str | None
) -> Any:
    r"""The row with the best reading, with the risk of its setting."""
    data = experiment.data.dropna()
    best = data[outcome].idxmin() if direction == "minimize" else data[outcome].idxmax()
    row = data.loc[[best]]
    risks = experiment.recommend(among=row[settings])
    new = [name for name in risks.columns if name not in row.columns]
    return row.assign(**{name: risks[name].to_numpy() for name in new})


def _check(experiment: FrameExperiment) -> LeaveOneOut:
    r"""The rows, each without the others, and the box.

    A box with labels or limits is not checked: points between labels, and beyond limits, are no
    settings.
    """
    belief, space = experiment.strategy.belief, experiment.strategy.space
    if isinstance(space, EnvironmentSpace):
        box: Any = space.box
        model, bounds = belief.model, input_range(space)
        is_numbers = not space.categories_of_w
    else:
        box = space
        model, bounds = belief, unit_cube(space.bounds)
        is_numbers = True
    if not (is_numbers and isinstance(box, Box) and not box.categories and box.limits is None):
        return leave_one_out(model)
    found = leave_one_out(model, bounds)
    if found.box is None:
        return found
    point = found.box.least_sure.reshape(1, -1)
    point = point if isinstance(space, EnvironmentSpace) else box.from_unit(point)
    in_units = torch.tensor(experiment.named(point).to_numpy(dtype=float))
    return replace(found, box=replace(found.box, least_sure=in_units))


def advise(
    readings: Any,
    *,
    settings: Any = None,
    outcomes: Mapping[str, Direction] | None = None,
    conditions: Mapping[str, Any] | None = None,
    risk: RiskMeasure | float | None = None,
    environment: Environment | None = None,
    batch_size: int = 1,
    seed: int = 0,
    **options: Any,
) -> Advice:
    r"""Advise on readings of any package: the best setting by its risk, not the luckiest reading.

    A `FrameExperiment` is told the readings and asked for a recommendation. Without conditions it
    uses `rahbo`: the noise may differ between settings, and is learnt from repeats or, without
    repeats, from the scatter of all readings. With conditions it uses `risk_search`, and learns
    the distribution of the conditions unless `environment` states it. Without `risk` both maximise
    the expectation.

    Args:
        readings: One of

            - a DataFrame, one reading per row;
            - a study of Optuna. Categorical choices become labels, as text unless they are
              booleans; integers have steps, even on a logarithmic scale; conditions are user
              attributes of the trials; failed and pruned trials are failed evaluations;
            - an experiment or a `Client` of Ax, with conditions as tracking metrics. A mean with a
              count, as from `botorch_risk.ax.readings`, is replaced by as many readings with the
              same mean and standard error;
            - tensors `(X, Y)` as BoTorch has them: X is `n x d`, conditions last, and Y is `n`,
              `n x 1`, or `n x k` with repeats, of an outcome `y` that is maximised.
        settings: The settings by name, as in `FrameExperiment`; bounds `2 x d_x` for tensors.
            Default: as in the study or the experiment.
        outcomes: The outcome with its direction. Default: as for `settings`; only a DataFrame needs
            it.
        conditions: What was measured with the outcome but cannot be set, by name: `(low, high)`, or
            labels.
        risk: With conditions, a measure such as `ConditionalValueAtRisk(0.1)`; otherwise the
            weight of the variance, >= 0, in units of 1 / outcome.
        environment: The distribution of the conditions, if it is known.
        batch_size: The number of settings to read next.
        seed: Seed of every random draw.
        options: Further arguments of `rahbo` or of `risk_search`, or another `strategy` with its
            own arguments.

    Returns:
        The advice. Print it.

    Raises:
        InputDataError: If a trial lacks a condition, or `FrameExperiment.tell` refuses a row.
        TypeError: If the readings have another type.
        UnsupportedError: If the study or the experiment has several objectives.
        ValueError: If settings or outcomes are missing, the risk does not fit the conditions, or
            the readings are too few for a model.

    Example:
        >>> import torch
        >>> X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
        >>> Y = -((X - 0.4) ** 2) + 0.02 * torch.sin(50 * X)
        >>> advice = advise((X, Y), settings=torch.tensor([[0.0], [1.0]]))
        >>> advice.anywhere.columns.tolist()
        ['x0', 'y_risk', 'y_risk_lower', 'y_risk_upper']
        >>> bool(abs(advice.anywhere["x0"].iloc[0] - 0.4) < 0.1)
        True
    """
    check_arguments(advise, locals())
    if not (risk is None or isinstance(risk, RiskMeasure)):
        check_nonnegative(risk=risk)
    conditions = dict(conditions or {})
    found = foreign_readings(readings, list(conditions), settings)
    settings = found.settings if settings is None or isinstance(readings, tuple) else settings
    outcomes = outcomes or found.outcomes
    if settings is None or not outcomes or len(outcomes) != 1:
        raise ValueError(
            "Expected `settings` by name, and one outcome with its direction, such as "
            f"{{'yield': 'maximize'}}, for a table. Got {settings=}, {outcomes=}."
        )
    (outcome,) = outcomes
    columns = [*settings, *conditions, outcome]
    check_names(found.frame, columns, list(found.frame.columns))
    frame = found.frame[columns]
    strategy = _strategy(frame, [*settings], conditions, risk, environment, outcome)
    experiment = FrameExperiment(
        settings, outcomes, contexts=conditions, seed=seed, **{**strategy, **options}
    )
    experiment.tell(frame)
    num_tried = len(frame.dropna().drop_duplicates([*settings, *conditions]))
    if num_tried < len(columns):
        raise ValueError(
            f"Expected readings of at least {len(columns)} settings for a model of "
            f"{len(columns) - 1} columns. Got {num_tried}."
        )
    return Advice(
        outcome=outcome,
        anywhere=experiment.recommend(),
        tried=experiment.recommend(among=frame[[*settings]].drop_duplicates()),
        luckiest=_luckiest(experiment, [*settings], outcome, outcomes[outcome]),
        next=experiment.ask(batch_size, pending=found.running),
        verdict=verdict(_check(experiment)),
        experiment=experiment,
    )
