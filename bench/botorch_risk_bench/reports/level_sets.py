r"""Show how well strategies know a level set, by the cost so far."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_risk.papers import LevelSet
from botorch_risk.test_functions import FiniteDomainProblem
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.metrics import INTERVAL, classify_by_mean, level_set_scores
from botorch_risk_bench.reports.replay import replay
from botorch_risk_bench.reports.summary import cell, comparison_table, table


class LevelSetCurves(NamedTuple):
    r"""How well a level set was known, and the cost so far.

    Attributes:
        cost: `R x (T + 1)`, what all samples had cost after the initial design and each round.
        f1: `R x (T + 1)`, the F1 score of the points whose posterior mean is at least the level.
    """

    cost: Tensor
    f1: Tensor


def common_costs(curves: Mapping[str, LevelSetCurves], num_costs: int) -> Tensor:
    r"""Space `num_costs` costs evenly over the range that all runs have reached.

    The range runs from the largest cost of the first samples to the smallest median final cost.
    """
    first = max(curve.cost[:, 0].max() for curve in curves.values())
    last = min(curve.cost[:, -1].median() for curve in curves.values())
    return torch.linspace(float(first), float(last), num_costs, dtype=torch.double)


def score_at_cost(curve: LevelSetCurves, costs: Tensor) -> Tensor:
    r"""F1 scores `R x n` at `n` costs; NaN before the first sample."""
    asked = costs.expand(len(curve.cost), -1).contiguous()
    last = torch.searchsorted(curve.cost.contiguous(), asked, right=True)
    found = curve.f1.gather(-1, (last - 1).clamp_min(0))
    return found.where(last > 0, torch.nan)


def level_set_curves(
    store: ExperimentRecords, definition: ExperimentDefinition, label: str
) -> LevelSetCurves:
    r"""Cost and F1 score of a strategy on a finite domain, by round.

    All methods are scored by the posterior mean ([Bogunovic2016truvar]_, Sec. 4).
    """
    threshold, problem = definition.threshold, definition.problem_of(store.identity["seeds"])
    if threshold is None or not isinstance(problem, FiniteDomainProblem):
        raise ValueError(
            "Expected an experiment with a threshold on a finite domain. Got "
            f"{definition.name=}, {threshold=}, {type(problem).__name__=}."
        )
    truth = problem.values >= threshold
    costs, scores = [], []
    for strategy in replay(store, definition, label):
        score = torch.full((len(strategy.seeds),), torch.nan, dtype=torch.double)
        for replicates, view in strategy.views:
            sets = classify_by_mean(view.belief.posterior, LevelSet(threshold))
            values = truth if truth.dim() == 1 else truth[replicates]
            score[replicates] = level_set_scores(sets.high, values).f1.double()
        scores.append(score)
        costs.append(strategy.state["cost"])
    return LevelSetCurves(torch.stack(costs, dim=-1), torch.stack(scores, dim=-1))


def store_curves(
    store: ExperimentRecords, definition: ExperimentDefinition
) -> dict[str, LevelSetCurves]:
    r"""Cost and F1 score of the strategies that have completed a round, by their label."""
    begun = [label for label in store.labels() if store.rounds(label, first=1)]
    if not begun:
        raise ValueError(
            f"Expected a completed round after the initial design in {store.path}. Got none."
        )
    return {label: level_set_curves(store, definition, label) for label in begun}


def level_set_markdown(curves: Mapping[str, LevelSetCurves], identity: Mapping[str, Any]) -> str:
    r"""Tabulate F1 scores at a quarter, a half and all of the common costs."""
    costs = common_costs(curves, 5)[[1, 2, 4]]
    scores = {label: score_at_cost(curve, costs) for label, curve in curves.items()}
    header = ["strategy", *(f"at cost {cost:.4g}" for cost in costs.tolist())]
    rows = [[label, *(cell(column) for column in score.T)] for label, score in scores.items()]
    parts = [
        f"# {identity['experiment']}: {identity['objective']}",
        f"{len(identity['seeds'])} replicates, mean ± {INTERVAL}. Points are classified "
        "by the posterior mean. The cost is what all samples have cost, with the initial "
        "design; the last is one that all runs have reached.",
        table(header, rows),
    ]
    first, *others = scores
    if others:
        rows = [
            [label, *(cell(column) for column in (scores[label] - scores[first]).T)]
            for label in others
        ]
        parts += [f"## Paired differences to {first}, seed by seed", comparison_table(header, rows)]
    return "\n\n".join(parts) + "\n"
