r"""Experiments with constraints run by name, from the command line too."""

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.cli import app
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.chance_constrained import EXPERIMENTS
from botorch_risk_bench.experiments.problem import ProblemWithConstraints, decision_bounds
from typer.testing import CliRunner

from bench.tests.played import records_in

pytestmark = pytest.mark.filterwarnings(
    "ignore::botorch_risk.recommend.InfeasibleRecommendationWarning",
    "ignore:No observation of outcome:botorch.exceptions.warnings.UserInputWarning",
)


@pytest.mark.parametrize("definition", EXPERIMENTS, ids=lambda definition: definition.name)
def test_every_strategy_takes_all_outcomes_and_the_optimum_is_feasible(definition: Any) -> None:
    problem: Any = definition.problem()
    assert isinstance(problem, ProblemWithConstraints)
    bounds = decision_bounds(problem)
    built = [definition.build(label, bounds, [0, 5]) for label in definition.strategies]
    assert {each.method.num_outcomes for each in built} == {1 + problem.num_constraints}
    best = problem.optimal_decision
    assert problem.is_feasible_decision(best)
    assert problem.objective(best).item() == pytest.approx(definition.optimal_value(problem))


@pytest.mark.slow
def test_chance_branin_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "results.sqlite"

    def invoke(*arguments: Any) -> str:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "chance-branin: Branin (2, 1) in a disk, feasible with" in invoke("list")
    chosen = ("--strategy", "confidence-bound", "--strategy", "random")
    for rounds in (1, 2):  # the second call resumes
        invoke("run", "chance-branin", *chosen, "--seeds", 2, "--rounds", rounds, "--out", out)
    assert "confidence-bound: 2 rounds after the initial design" in invoke("status", out)
    invoke("plot", out, "--to", tmp_path)
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| strategy | made | violated | regret where feasible |" in page
    problem: Any = get_experiment("chance-branin").problem()
    with records_in(out) as store:
        for record in store.rounds("confidence-bound"):
            assert record.Y.shape[2:] == (1, 2)
            values = problem.objective(record.recommendation)
            fails = ~problem.is_feasible_decision(record.recommendation)
            expected = values.masked_fill(fails, problem.worst_feasible_value)
            assert torch.equal(record.recommended_objective, expected)
