r"""The arm to recommend, by the risk that its strategy optimises."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from ax.api.client import Client
from ax.core.experiment import Experiment

from botorch_risk.arguments import check_kind, in_short
from botorch_risk.ax.acquisition import parts_of
from botorch_risk.ax.fitted import confidence_bound, encoded, fitted_adapter
from botorch_risk.ax.observed import ObservedAdapter
from botorch_risk.ax.trials import measured_arms
from botorch_risk.recommend import InfeasibleRecommendationWarning, recommend

Rule = Literal["lower_confidence_bound", "posterior_mean"]


@dataclass(frozen=True)
class BestArm:
    r"""An arm with its estimated risk; larger is better.

    Args:
        trial_index: The first trial of the arm.
        parameters: The parameters of the arm.
        mean: The posterior mean of its risk (for a minimised metric, of its negative).
        lower: A lower confidence bound.
        upper: An upper confidence bound.
        runner_up: By the same rule, the best arm with another decision, if there is one.
        feasible: Whether it meets all outcome constraints with confidence; `None` without any.
    """

    trial_index: int
    parameters: dict[str, Any]
    mean: float
    lower: float
    upper: float
    runner_up: BestArm | None = None
    feasible: bool | None = None


def best_arm(client: Client, rule: Rule = "lower_confidence_bound") -> BestArm:
    r"""Recommend a measured arm by its risk, not by a lucky outcome.

    Ax's own best parameterization compares predicted means, or the observed ones if it mistrusts
    the model, and uses the model of the last candidate; `best_arm` uses the risk that the strategy
    optimises, including noise, context and constraints, with all data so far. It is one of the arms
    that completed trials measured in the present search space. With outcome constraints it is the
    best of the arms that meet the present ones with confidence, or else the least infeasible arm,
    as in `recommend`.

    Args:
        client: The client of an experiment with a strategy of this package and at least one
            completed trial.
        rule: The lower confidence bound of the risk, as in RAHBO, or its posterior mean.

    Warns:
        InfeasibleRecommendationWarning: If no arm meets all constraints with confidence.

    Raises:
        AssertionError: Ax's own error, if the client has no experiment or no generation strategy.
        DataRequiredError: If no completed trial measured the objective inside the search space.
        UnsupportedError: If the strategy has no bounds of a risk.

    Example:
        >>> from ax.api.configs import RangeParameterConfig
        >>> from botorch_risk.ax import readings, risk_averse
        >>> client = Client()
        >>> client.configure_experiment([RangeParameterConfig("heat", (0.0, 1.0), "float")])
        >>> client.configure_optimization("purity")
        >>> client.configure_tracking_metrics(["purity_count"])
        >>> client.set_generation_strategy(risk_averse("purity"))
        >>> for heat, values in ((0.2, [1.0, 1.1]), (0.5, [1.9, 2.0]), (0.9, [0.0, 3.9])):
        ...     index = client.attach_trial({"heat": heat})
        ...     _ = client.complete_trial(index, readings({"purity": values}))
        >>> best_arm(client).parameters
        {'heat': 0.5}
    """
    check_rule(rule)
    if not isinstance(client, Client):
        raise TypeError(f"Expected a client of Ax. Got {in_short(client)}.")
    experiment = client._experiment
    return recommended_arm(
        experiment, fitted_adapter(experiment, client._generation_strategy), rule
    )


def check_rule(rule: str) -> None:
    r"""Raises ValueError unless it is a rule by which arms are recommended."""
    check_kind(Rule, rule=rule)


def recommended_arm(experiment: Experiment, adapter: ObservedAdapter, rule: Rule) -> BestArm:
    r"""`best_arm` for an adapter that is fitted to the data of the experiment."""
    arms = measured_arms(experiment)
    parts = parts_of(confidence_bound(adapter))
    objective, constraints = parts.objective, parts.constraints
    X = parts.decisions(encoded(adapter, [arm.parameters for _, arm in arms]))

    def arm_of(rows: Sequence[int]) -> tuple[int, BestArm]:
        found = recommend(objective, X[rows], rule, feasible=constraints)
        row, x = rows[int(found.row)], found.point.unsqueeze(-2)
        index, arm = arms[row]
        with torch.no_grad():
            lower, mean, upper = (
                getattr(objective, side)(x).item() for side in ("lower", "mean", "upper")
            )
        feasible = None if found.feasible is None else bool(found.feasible)
        return row, BestArm(index, dict(arm.parameters), mean, lower, upper, feasible=feasible)

    chosen, best = arm_of(range(len(arms)))
    others = [row for row, x in enumerate(X) if not torch.equal(x, X[chosen])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleRecommendationWarning)  # said of the best one
        return replace(best, runner_up=arm_of(others)[1] if others else None)
