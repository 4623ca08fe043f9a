r"""The experiments of SBO-KDE know the bounds of their contexts, and run without anybody's data."""

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers import kde
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.reports.summary import regret_curves

from tests.bench.played import play, records_in

NAMES = [definition.name for definition in kde.EXPERIMENTS]


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_knows_the_bounds_of_the_contexts(name: str) -> None:
    definition = get_experiment(name)
    problem: Any = definition.problem()
    bounds, contexts = decision_bounds(problem), problem.bounds[:, problem.num_decision :]
    assert definition.optimal_value is not None
    assert definition.optimal_value(problem) == problem.optimal_expectation
    for label in definition.strategies:
        strategy: Any = definition.build(label, bounds, [0, 5])
        assert torch.equal(strategy.space.environment.context_bounds, contexts)


def test_the_experiments_of_the_papers_table_are_not_among_those_that_anybody_can_run() -> None:
    own = kde.portfolio("portfolio.csv")  # the file is read when a problem is built
    assert [each.name for each in own] == ["portfolio-normal", "portfolio-uniform"]
    assert get_experiment("portfolio-normal", own) is own[0]
    with pytest.raises(ValueError, match="Got name='portfolio-normal'"):
        get_experiment("portfolio-normal")


def test_a_portfolio_runs_on_the_bundled_table(tmp_path: Path) -> None:
    definition, path = get_experiment("bundled-portfolio-normal"), tmp_path / "results.sqlite"
    play(definition, path, 1, ["GP-UCB"], 1)
    with records_in(path) as store:
        curve = regret_curves(store)["GP-UCB"].simple
    assert curve.shape[-1] == 2
    assert (curve > 0).all()
