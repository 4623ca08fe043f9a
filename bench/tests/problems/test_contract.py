r"""The laws of the bench's problems, and what the loop of experiments asks of every problem."""

import pytest
import torch
from botorch_risk_bench.campaigns.loop import evaluate
from botorch_risk_bench.experiments.problem import (
    ProblemWithContexts,
    ProblemWithObjective,
    decision_bounds,
)
from botorch_risk_testing.laws import Law
from botorch_risk_testing.problems import LAWS, ProblemCase

from bench.tests.problems.cases import PROBLEMS
from tests.contracts import at_home, every_law
from tests.test_functions import cases as of_the_plugin

ALL = [*of_the_plugin.PROBLEMS, *PROBLEMS]


@every_law(LAWS, PROBLEMS)
@pytest.mark.every_device
def test_law(case: ProblemCase, law: Law) -> None:
    law.check(at_home(case))


@pytest.mark.parametrize("case", [row for row in ALL if row.values[0].objective])
def test_is_what_the_experiment_loop_asks_for(case: ProblemCase) -> None:
    problem, seeds = case.build(torch.float64), [5, 1, 8]
    assert decision_bounds(problem).shape == (2, case.decision)
    assert isinstance(problem, ProblemWithObjective)
    assert isinstance(problem, ProblemWithContexts) == (problem.dim > case.decision)
    X = case.sobol(problem, 6).reshape(3, 2, case.decision)
    assert torch.equal(problem.objective(X), case.objective(problem, X))
    met, outcomes = evaluate(problem, X, seeds, num_repeats=4, index=2)
    assert met.shape == (3, 2, problem.dim)
    assert torch.equal(met[..., : case.decision], X)
    assert outcomes.shape == (3, 2, 4)
    _, alone = evaluate(problem, X[1:2], [1], num_repeats=4, index=2)
    torch.testing.assert_close(alone, outcomes[1:2], rtol=1e-9, atol=1e-9)
