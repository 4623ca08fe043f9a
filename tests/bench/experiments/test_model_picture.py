from __future__ import annotations

from pathlib import Path

from botorch_risk_bench.experiments.experiment_run import ExperimentRun
from botorch_risk_bench.experiments.model_picture import plot_final_model
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.experiments.store import ExperimentStore


def test_the_models_of_a_one_dimensional_experiment_are_drawn(tmp_path: Path) -> None:
    definition = get_experiment("sine")
    path = tmp_path / "sine.sqlite"
    ExperimentRun(definition, path, seeds=range(2), labels=["RAHBO"], num_rounds=1).run(
        progress=False
    )
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
