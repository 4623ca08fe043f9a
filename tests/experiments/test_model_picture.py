from __future__ import annotations

from pathlib import Path

import pytest

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.model_picture import plot_final_model
from botorch_risk.experiments.registry import experiments, get_experiment
from botorch_risk.experiments.store import ExperimentStore


def test_the_models_of_a_one_dimensional_experiment_are_drawn(tmp_path: Path) -> None:
    definition = get_experiment("sine")
    path = tmp_path / "sine.sqlite"
    Campaign(definition, path, seeds=range(2), labels=["RAHBO"], num_rounds=1).run(progress=False)
    with ExperimentStore(path) as store:
        figure = plot_final_model(store, definition, "RAHBO", replicate=1)
        assert figure is not None
        (axes,) = figure.axes
        assert axes.get_title() == "sine, RAHBO, seed 1, round 1"
        repeats, means = axes.lines[1:3]
        assert len(repeats.get_xdata()) == 11 * definition.num_repeats
        assert len(means.get_xdata()) == 11
        assert plot_final_model(store, get_experiment("branin"), "RAHBO") is None
        assert plot_final_model(store, definition, "GP-UCB") is None


@pytest.mark.parametrize("name", ["sine", "branin-variance", "forest", "forest-100"])
def test_registered_experiments_build(name: str) -> None:
    definition = experiments()[name]
    problem = definition.problem()
    for label, factory in definition.strategies.items():
        X = factory(problem.bounds, [0, 1], definition.num_initial).ask()
        assert X.shape == (2, 10, problem.bounds.shape[-1]), label
    if definition.optimal_value is not None:
        X = X.flatten(0, 1).unsqueeze(0)
        assert (problem.objective(X) <= definition.optimal_value(problem) + 1e-9).all()
