r"""What holds for every experiment: its strategies start alike, and its optimum is one."""

from typing import Any

import pytest
import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.problem import (
    ProblemWithConstraints,
    ProblemWithObjective,
    decision_bounds,
    decision_space,
)
from botorch_risk_bench.experiments.registry import experiments

DECISIONS = {
    "noise-levels": 2,
    "noise-levels-functions": 2,
}  # columns of the decision, before those that a strategy sets


@pytest.mark.parametrize("name", experiments())
def test_every_strategy_starts_from_the_same_decisions(name: str) -> None:
    definition = get_experiment(name)
    problem: Any = definition.problem_of([0, 5])
    space, d = decision_space(problem), DECISIONS.get(name, decision_bounds(problem).shape[-1])
    starts = {
        label: definition.build(label, space, [0, 5]).ask()[..., :d]
        for label in definition.strategies
    }
    first = next(iter(starts.values()))
    assert [label for label, X in starts.items() if not torch.equal(X, first)] == []
    if definition.optimal_value is not None and isinstance(problem, ProblemWithObjective):
        values = problem.objective(first)
        if isinstance(problem, ProblemWithConstraints):
            values = values[problem.is_feasible_decision(first)]
        assert (values <= definition.optimal_value(problem) + 1e-9).all()
