r"""The surrogate of back-tests: the bundled table and the papers'."""

import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch_risk_bench.problems import PortfolioOptimization, ValueAtRiskPortfolio
from build import ProjectBuilder
from torch.quasirandom import SobolEngine

from bench.reproduction.portfolio import surrogate
from bench.tests.problems.cases import portfolio_tables
from botorch_risk.engine import fit_exact_gp
from botorch_risk.environments import ContinuousEnvironment

distributions = pytest.mark.parametrize("distribution", ["uniform", "normal"])


FILES = ("portfolio_backtests.csv", "portfolio_surrogate.json")


def bundled_rows() -> np.ndarray:
    file = resources.files("botorch_risk_bench.problems") / FILES[0]
    return np.loadtxt(file.read_text().splitlines(), delimiter=",", skiprows=1)


@portfolio_tables
@distributions
def test_the_optimum_is_one(portfolio_table: str | None, distribution: str) -> None:
    problem = PortfolioOptimization(portfolio_table, distribution=distribution)
    found = problem.objective(problem.optimal_decision).item()
    assert found == pytest.approx(problem.optimal_expectation, abs=2e-6)
    X = SobolEngine(3, scramble=True, seed=0).draw(32, dtype=torch.double)
    near = (problem.optimal_decision + 0.02 * (X[:8] - 0.5)).clamp(0, 1)
    assert (problem.objective(torch.cat([X, near])) <= found + 1e-6).all()


@portfolio_tables
@distributions
def test_the_expectation_is_that_of_draws_and_of_more_points(
    portfolio_table: str | None, distribution: str
) -> None:
    problem = PortfolioOptimization(portfolio_table, distribution=distribution)
    x = problem.optimal_decision
    found = problem.objective(x).item()
    W = problem.sample_environment(2**12, torch.Generator().manual_seed(0))
    draws = problem(torch.cat([x.expand(2**12, 3), W], dim=-1))
    assert draws.mean().item() == pytest.approx(found, abs=5 * draws.std().item() / 2**6)
    box = problem.bounds[:, 3:]
    problem.environment = ContinuousEnvironment(
        problem.marginals, box, n_w=40**2, seeds=0, rule="quadrature", beyond="clip"
    )
    assert problem.objective(x).item() == pytest.approx(found, abs=2e-6)


@portfolio_tables
def test_surrogate_equals_numpy(portfolio_table: str | None) -> None:
    problem = PortfolioOptimization(portfolio_table)
    papers = portfolio_table is not None
    table = np.loadtxt(portfolio_table, delimiter=",", skiprows=1) if papers else bundled_rows()
    fitted = problem.surrogate
    scaled = table[:, :5] / np.array(fitted.lengthscale)

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = np.sqrt(5) * np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=-1))
        return fitted.outputscale * (1 + r + r**2 / 3) * np.exp(-r)

    center, spread = table[:, 5].mean(), table[:, 5].std(ddof=1)
    targets = (table[:, 5] - center) / spread - fitted.constant
    gram = kernel(scaled, scaled) + fitted.noise * np.eye(len(table))
    X = np.random.default_rng(0).random((20, 5))
    mean = kernel(X / np.array(fitted.lengthscale), scaled) @ np.linalg.solve(gram, targets)
    expected = (-1 if papers else 1) * (center + spread * (fitted.constant + mean))
    np.testing.assert_allclose(problem(torch.from_numpy(X)), expected, atol=1e-5)


def test_the_surrogate_is_close_to_the_back_tests() -> None:
    rows = torch.from_numpy(bundled_rows())
    problem = PortfolioOptimization()
    residual = problem(rows[:, :5]) - rows[:, 5]
    # The noise of the surrogate, in percent a year, is about a quarter.
    assert residual.std() < 0.5
    assert residual.abs().median() < 0.1


def test_the_bundled_table_covers_the_cube_and_is_small() -> None:
    rows = bundled_rows()
    assert rows.shape == (1024, 6)
    assert len(np.unique(rows[:, :5], axis=0)) == 1024
    for column in rows[:, :5].T:  # every thirty-second part of each axis has its share
        counts, _ = np.histogram(column, bins=32, range=(0, 1))
        assert (np.abs(counts - 32) <= 2).all()
    file = resources.files("botorch_risk_bench.problems") / FILES[0]
    assert len(file.read_bytes()) < 60_000


@pytest.mark.slow
def test_the_table_is_in_the_wheel(tmp_path: Path) -> None:
    builder = ProjectBuilder(Path(__file__).parents[3] / "bench")
    with zipfile.ZipFile(builder.build("wheel", tmp_path)) as wheel:
        names = wheel.namelist()
    assert {f"botorch_risk_bench/problems/{name}" for name in FILES} <= set(names)


def test_refuses_another_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    np.savetxt(path, np.random.default_rng(0).random((10, 6)), delimiter=",", header="a,b,c,d,e,f")
    with pytest.raises(InputDataError, match=r"Expected 3,000 rows .* Got \(10, 6\)"):
        PortfolioOptimization(path)


@portfolio_tables
def test_value_at_risk_is_an_order_statistic_of_the_grid(portfolio_table):
    problem = ValueAtRiskPortfolio(portfolio_table)
    points, weights = problem.environment.points, problem.environment.weights
    assert points.shape == (100, 2)
    assert weights.allclose(weights.new_tensor(0.01))
    X = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    values = problem.objective(X)
    pairs = torch.cat([X[:1].expand(100, 3), points], dim=-1)
    ordered = problem(pairs, noise=False).sort().values
    torch.testing.assert_close(values[0], ordered[19])  # the 20th of 100 at level 0.2
    best = problem.objective(problem.optimal_decision.unsqueeze(0)).item()
    assert best == pytest.approx(problem.optimal_value_at_risk, abs=1e-6)
    assert (values <= best).all()
    near = (problem.optimal_decision + 0.02 * (X - 0.5)).clamp(0, 1)
    assert (problem.objective(near) <= best + 1e-6).all()


@pytest.mark.slow
def test_a_fit_reaches_the_stored_hyperparameters_from_afar_and_keeps_them() -> None:
    r"""1,024 back-tests, which 400 of them lead astray: to a posterior without noise."""
    model = surrogate.build()
    stored = surrogate.set_to_stored(model)
    assert stored == pytest.approx(-0.2783776, abs=1e-6)
    for begin in (model, surrogate.build()):
        assert fit_exact_gp(begin).objective.item() == pytest.approx(stored, abs=1e-9)
