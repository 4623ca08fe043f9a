r"""The experiments of RAHBO start alike and know their optimum."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers.rahbo import AS_IN_THE_PAPER, METHODS

from botorch_risk.strategies import initial_design


@pytest.mark.parametrize("name", ["sine", "branin-variance", "forest", "forest-100"])
def test_every_strategy_starts_from_the_same_points(name: str) -> None:
    definition = get_experiment(name)
    problem: Any = definition.problem()
    expected = initial_design(problem.bounds, [0, 1], 10)
    for label in definition.strategies:
        X = definition.build(label, problem.bounds, [0, 1]).ask()
        assert torch.equal(X, expected), label
    if definition.optimal_value is not None:
        X = expected.flatten(0, 1).unsqueeze(0)
        assert (problem.objective(X) <= definition.optimal_value(problem) + 1e-9).all()


def test_each_method_is_there_with_the_choices_of_the_paper() -> None:
    definition = get_experiment("sine")
    assert list(definition.strategies) == [*METHODS, *(f"{label}-paper" for label in METHODS)]
    weight = definition.settings["risk_aversion"]
    for label, factory in definition.strategies.items():
        chosen: Any = factory  # a partial
        assert chosen.keywords["risk_aversion"] == weight
        assert (chosen.keywords.items() >= AS_IN_THE_PAPER.items()) == label.endswith("-paper")
