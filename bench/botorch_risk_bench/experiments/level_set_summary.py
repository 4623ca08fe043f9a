r"""How well strategies know a level set for what they have paid, as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.records import Records
from botorch_risk_bench.experiments.replay import (
    LevelSetCurves,
    common_costs,
    level_set_curves,
    score_at_cost,
)
from botorch_risk_bench.experiments.summary import cell, comparison_table, table
from botorch_risk_bench.metrics import INTERVAL


def store_curves(store: Records, definition: ExperimentDefinition) -> dict[str, LevelSetCurves]:
    r"""Cost and F1 score of the strategies that have completed a round, by their label.

    Args:
        store: The store of the experiment.
        definition: The experiment, on a level set.

    Raises:
        ValueError: If no strategy has completed a round after the initial design.
    """
    begun = [label for label in store.labels() if _has_played(store, label)]
    if not begun:
        raise ValueError(
            f"Expected a completed round after the initial design in {store.path}. Got none."
        )
    return {label: level_set_curves(store, definition, label) for label in begun}


def level_set_markdown(curves: Mapping[str, LevelSetCurves], identity: Mapping[str, Any]) -> str:
    r"""A page with the F1 scores on the way: at a quarter, a half and all of the common costs.

    Args:
        curves: Costs and scores by label.
        identity: What the store says of the experiment.

    Returns:
        Markdown; the mean and its Student-t interval, 95 %, over the replicates.
    """
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


def _has_played(store: Records, label: str) -> bool:
    r"""Whether a round after the initial design is completed."""
    return any(record.recommendation is not None for record in store.rounds(label, first=1))
