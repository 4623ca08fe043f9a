r"""Show how often recommendations meet their constraints."""

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import ProblemWithConstraints
from botorch_risk_bench.metrics import binomial_interval
from botorch_risk_bench.reports.replay import final_strategy
from botorch_risk_bench.reports.summary import cell, table


def constraint_markdown(
    stores: Iterable[ExperimentRecords], definition: ExperimentDefinition
) -> str:
    r"""Summarise the last recommendations of each strategy in a Markdown page.

    - *made*: the model called the recommended decision feasible with confidence;
    - *violated*: the share of these that is infeasible in truth;
    - the regret of recommendations that are feasible in truth.

    Args:
        stores: Stores of the experiment, of different seeds or strategies.
        definition: The experiment, on a problem with constraints.

    Returns:
        Markdown; shares with exact binomial intervals, means with Student-t intervals, 95 %.
    """
    problem: Any = definition.problem()
    has_constraints = isinstance(problem, ProblemWithConstraints)
    if not has_constraints or definition.optimal_value is None:
        raise ValueError(
            "Expected a problem with constraints and a known optimum. "
            f"Got {type(problem).__name__}."
        )
    optimum = definition.optimal_value(problem)
    parts: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}
    for store in stores:
        for label in store.labels():
            last = store.rounds(label)[-1].recommendation
            feasible = problem.is_feasible_decision(last)
            regret = optimum - problem.objective(last)
            row = (_made(store, definition, label), feasible, regret)
            parts.setdefault(label, []).append(row)
    rows = [
        _row(label, *(torch.cat(each) for each in zip(*found, strict=True)))
        for label, found in parts.items()
    ]
    return table(["strategy", "made", "violated", "regret where feasible"], rows) + "\n"


def _made(store: ExperimentRecords, definition: ExperimentDefinition, label: str) -> Tensor:
    r"""Which replicates have a recommendation that is feasible with confidence, `R`."""
    strategy = final_strategy(store, definition, label)
    made = torch.zeros(len(strategy.seeds), dtype=torch.bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleRecommendationWarning)  # it is what is counted
        for replicates, view in strategy.views:
            made[replicates] = strategy.method.recommendation(view).feasible
    return made


def _row(label: str, made: Tensor, feasible: Tensor, regret: Tensor) -> list[str]:
    violated = made & ~feasible
    return [
        label,
        _share(int(made.sum()), len(made)),
        _share(int(violated.sum()), int(made.sum())),
        cell(regret.masked_fill(~feasible, torch.nan)),
    ]


def _share(count: int, num_trials: int) -> str:
    r"""A share with its exact interval, as in '4 of 200: 2.0 % (0.5 to 5.0)'."""
    if num_trials == 0:
        return "0 of 0"
    low, high = (100 * each for each in binomial_interval(count, num_trials))
    share = 100 * count / num_trials
    return f"{count} of {num_trials}: {share:.1f} % ({low:.1f} to {high:.1f})"
