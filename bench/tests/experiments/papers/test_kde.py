r"""The experiments of SBO-KDE know the bounds of their contexts, and run without anybody's data."""

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers import kde
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.reports.summary import regret_curves

from bench.tests.played import play, records_in

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
    with pytest.raises(ValueError, match="not found: 'portfolio-normal'"):
        get_experiment("portfolio-normal")


def test_a_portfolio_runs_on_the_bundled_table(tmp_path: Path) -> None:
    definition, path = get_experiment("bundled-portfolio-normal"), tmp_path / "results.sqlite"
    play(definition, path, 1, ["GP-UCB"], 1)
    with records_in(path) as store:
        curve = regret_curves(store)["GP-UCB"].simple
    assert curve.shape[-1] == 2
    assert (curve > 0).all()


def test_the_box_of_the_released_program_is_below_the_mean() -> None:
    observed = torch.tensor([[[0.2], [0.4], [0.6]], [[0.5], [0.5], [0.8]]], dtype=torch.double)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    box = kde.below_the_mean(observed, bounds=unit, seeds=[0, 1])
    mean, deviation = observed.mean(dim=-2), observed.std(dim=-2, correction=0)
    expected = torch.stack([mean - 3 * deviation, mean - deviation], dim=-2)
    torch.testing.assert_close(box.box, expected)


def test_the_ball_of_the_released_program_is_below_the_bounds() -> None:
    bounds = torch.tensor([[1.0], [3.0]], dtype=torch.double)
    observed = torch.tensor([[1.5], [2.0], [2.5]], dtype=torch.double)
    learnt = kde.ball_below_the_bounds(observed, bounds=bounds, seeds=0)
    inside, ball = learnt.points.split(kde.N_W)
    assert inside.min() >= 1 and inside.max() <= 3
    assert ball.min() >= -1 and ball.max() <= 1
    assert learnt.weights[kde.N_W :].sum() == 0
    own = kde.KernelDensityEnvironment(observed, bounds, n_w=kde.N_W, seeds=0, n_ball=kde.N_W)
    torch.testing.assert_close(ball + 2, own.points[kde.N_W :])


def test_gp_ucb_of_the_released_program_is_narrower() -> None:
    definition = get_experiment("ackley")
    widths = [definition.strategies[name].keywords for name in ("GP-UCB", "GP-UCB-released")]
    assert "beta" not in widths[0] and widths[1]["beta"] == kde.PAPER_BETA**0.5 == 1.5


def test_experiments_draw_contexts_that_resume(tmp_path: Path) -> None:
    r"""A run that is stopped and goes on equals the uninterrupted one."""
    records = []
    for name, stops in (("whole", (3,)), ("stopped", (1, 3))):
        path = tmp_path / f"{name}.sqlite"
        for rounds in stops:
            play("ackley", path, 2, ["SBO-KDE"], rounds)
        with records_in(path) as found:
            records.append(found.rounds("SBO-KDE"))
    for one, two in zip(*records, strict=True):
        assert one.X.shape[-1] == 3
        assert torch.equal(one.X, two.X)
        assert torch.equal(one.Y, two.Y)
        assert torch.equal(one.recommendation, two.recommendation)
    problem = get_experiment("ackley").problem()
    torch.testing.assert_close(one.objective, problem.objective(one.X[..., :2]))
    assert (one.objective <= problem.optimal_expectation).all()
