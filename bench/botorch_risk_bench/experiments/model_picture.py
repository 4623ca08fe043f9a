r"""The final model of a one-dimensional experiment, drawn from its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from botorch_risk.strategies import MeanVariance
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.plots import plot_model
from botorch_risk_bench.experiments.problem import decision_bounds, decision_space
from botorch_risk_bench.experiments.replay import final_strategy
from botorch_risk_bench.experiments.store import ExperimentStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_final_model(
    store: ExperimentStore, definition: ExperimentDefinition, label: str, replicate: int = 0
) -> Figure | None:
    r"""Mean, confidence band, noise band and evaluated points of one replicate.

    Args:
        store: The store of the experiment.
        definition: How its strategies are built.
        label: The strategy.
        replicate: Which of its replicates.

    Returns:
        The figure, or `None` where there is nothing to draw: the problem has more than one
        input, the strategy has no model, or it has no data.
    """
    _, state = store.progress(label)
    problem = definition.problem()
    bounds = decision_bounds(problem)
    seeds = store.identity["seeds"]
    if state is None or bounds.shape[-1] != 1 or label not in definition.strategies:
        return None
    method = definition.build(label, decision_space(problem), seeds).method
    if not isinstance(method, MeanVariance):
        return None
    strategy = final_strategy(store, definition, label)
    unit = torch.linspace(0, 1, 300).to(bounds).reshape(1, -1, 1).expand(len(seeds), -1, 1)
    model = strategy.belief
    with torch.no_grad():
        lower, upper = (
            bound[replicate] for bound in model.confidence_bounds(unit, method.weights.beta)
        )
        noise = model.predicted_noise(unit)[replicate].squeeze(-1)
    records = store.rounds(label)
    X, Y = (
        torch.cat([getattr(record, name)[replicate] for record in records]) for name in ("X", "Y")
    )
    scale, offset = bounds[1] - bounds[0], bounds[0]
    return plot_model(
        (offset + scale * unit[replicate]).squeeze(-1).numpy(),
        ((lower + upper) / 2).numpy(),
        lower.numpy(),
        upper.numpy(),
        noise.sqrt().numpy(),
        X.squeeze(-1).numpy(),
        Y.numpy(),
        title=f"{definition.name}, {label}, seed {seeds[replicate]}, round {len(records) - 1}",
    )
