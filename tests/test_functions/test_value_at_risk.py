r"""Problems of a value-at-risk."""

import numpy as np
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import brentq
from scipy.stats import norm, truncnorm
from torch import Tensor

from botorch_risk.risk import Expectation
from botorch_risk.test_functions import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskTestProblem,
)
from botorch_risk.test_functions.value_at_risk import equidistant_grid
from tests import oracles


class Shifted(ValueAtRiskTestProblem):
    r"""`w - (x - 0.3)^2`, whose quantiles are those of W, shifted."""

    num_decision = num_environment = 1
    _optima = {"discrete": (0.0, (0.3,)), "continuous": (0.0, (0.3,))}  # noqa: RUF012

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X[..., 1] - (X[..., 0] - 0.3).square()


class ShiftedSum(Shifted):
    r"""`w_1 + w_2 - (x - 0.3)^2`."""

    num_environment = 2

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X[..., 1:].sum(dim=-1) - (X[..., 0] - 0.3).square()


X = torch.tensor([[0.3], [0.8]], dtype=torch.double)


def test_of_a_discrete_distribution_it_is_one_of_its_points() -> None:
    points = np.arange(100) / 99
    masses = np.exp(-(((points - 0.5) / 0.1) ** 2))
    quantile = points[np.cumsum(masses) / masses.sum() >= 0.1][0]
    expected = [quantile, quantile - 0.25]
    assert Shifted().objective(X).tolist() == pytest.approx(expected, abs=1e-12)


def test_of_a_continuous_distribution_it_is_the_quantile() -> None:
    quantile = truncnorm(-2, 2, 0.5, 0.125).ppf(0.1)
    found = Shifted("continuous").objective(X)
    assert found.tolist() == pytest.approx([quantile, quantile - 0.25], abs=1e-6)


def test_of_two_variables_it_has_its_level() -> None:
    draws = truncnorm(-2, 2, 0.5, 0.125).rvs((400_000, 2), random_state=0).sum(axis=1)
    found = ShiftedSum("continuous").objective(X[:1])
    assert found.item() == pytest.approx(np.quantile(draws, 0.1), abs=2e-3)


def test_grids_hold_the_corners() -> None:
    grid = equidistant_grid(torch.zeros(2, 2), 3)
    assert grid.tolist()[0] == [0.0, 0.0]
    assert grid.tolist()[-1] == [1.0, 1.0]
    assert grid.shape == (9, 2)


def test_refuses_an_unknown_distribution() -> None:
    with pytest.raises(ValueError, match="Expected `distribution` to be one of"):
        Shifted("uniform")


PROBLEMS = {
    "branin": ValueAtRiskBranin,
    "goldstein_price": ValueAtRiskGoldsteinPrice,
    "hartmann_1_2": lambda *args, **options: ValueAtRiskHartmann(1, *args, **options),
    "hartmann_2_1": lambda *args, **options: ValueAtRiskHartmann(2, *args, **options),
}

ONE_DIMENSIONAL = [name for name in PROBLEMS if name != "hartmann_1_2"]
every = pytest.mark.parametrize("name", PROBLEMS)
kinds = pytest.mark.parametrize("kind", ["discrete", "continuous"])


class TestBotorchContracts(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = [  # noqa: RUF012
        build(kind) for build in PROBLEMS.values() for kind in ("discrete", "continuous")
    ]


def f(name, X):
    r"""The functions in numpy at `... x d`."""
    if name == "branin":
        u, v = 15 * X[..., 0] - 5, 15 * X[..., 1]
        square = (v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6) ** 2
        branin = square + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10
        return -(branin - 44.81) / 51.95
    if name == "goldstein_price":
        a, b = 4 * X[..., 0] - 2, 4 * X[..., 1] - 2
        s = 19 - 14 * a + 3 * a * a - 14 * b + 6 * a * b + 3 * b * b
        t = 18 - 32 * a + 12 * a * a + 48 * b - 36 * a * b + 27 * b * b
        value = (1 + (a + b + 1) ** 2 * s) * (30 + (2 * a - 3 * b) ** 2 * t)
        return -(np.log(value) - 8.693)
    alpha = np.array([1.0, 1.2, 3.0, 3.2])
    A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
    P = 1e-4 * np.array(
        [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
    )
    return np.sum(alpha * np.exp(-np.sum(A * (X[..., None, :] - P) ** 2, axis=-1)), axis=-1)


def discrete_law(d_w):
    axis = np.arange(100) / 99 if d_w == 1 else np.arange(8) / 7
    points = np.stack(np.meshgrid(*[axis] * d_w, indexing="ij"), axis=-1).reshape(-1, d_w)
    masses = np.exp(-np.sum((points - 0.5) ** 2, axis=-1) / 0.1**2)
    return points, masses / masses.sum()


def with_decision(x, W):
    return np.concatenate([np.broadcast_to(x, (*W.shape[:-1], len(x))), W], axis=-1)


def discrete_value_at_risk(name, x, d_w):
    points, masses = discrete_law(d_w)
    return oracles.value_at_risk(f(name, with_decision(x, points)), masses, 0.1)


def level(w):
    r"""The normal distribution function, cut at two standard deviations."""
    return (norm.cdf((w - 0.5) / 0.125) - norm.cdf(-2)) / (norm.cdf(2) - norm.cdf(-2))


def continuous_value_at_risk(name, x):
    r"""For one environmental variable: the crossings of each value, each found as a root."""
    grid = np.linspace(0.25, 0.75, 2001)
    values = f(name, with_decision(x, grid[:, None]))

    def probability(v):
        def above(w):
            return f(name, with_decision(x, np.array([w]))) - v

        sides = np.sign(values - v)
        crossings = [brentq(above, *grid[i : i + 2]) for i in np.flatnonzero(np.diff(sides))]
        edges = np.concatenate([[0.25], crossings, [0.75]])
        middles = (edges[:-1] + edges[1:]) / 2
        inside = f(name, with_decision(x, middles[:, None])) <= v
        return np.sum(np.diff(level(edges))[inside])

    return brentq(lambda v: probability(v) - 0.1, values.min(), values.max(), xtol=1e-13)


def probability_of_two(name, x, v):
    r"""For two: that of values up to `v`, by crossings along one axis, panels along the other."""
    unit, lengths = np.polynomial.legendre.leggauss(4)
    panels = 400
    other = (0.25 + 0.5 * (np.arange(panels)[:, None] + (unit + 1) / 2) / panels).ravel()
    masses = np.tile(lengths, panels) * norm.pdf((other - 0.5) / 0.125)
    grid = np.linspace(0.25, 0.75, 1001)
    below = []
    for w in other:
        line = np.stack([grid, np.full_like(grid, w)], axis=-1)
        values = f(name, with_decision(x, line)) - v
        cells = np.flatnonzero(np.diff(np.sign(values)))
        share = values[cells] / (values[cells] - values[cells + 1])
        edges = np.concatenate([[0.25], grid[cells] + share * (grid[1] - grid[0]), [0.75]])
        parts = np.diff(level(edges))
        below.append(parts[int(values[0] > 0) :: 2].sum())  # they alternate
    return masses @ below / masses.sum()


@every
@kinds
def test_function_equals_numpy(name, kind):
    problem = PROBLEMS[name](kind)
    X = torch.rand(2, 4, problem.dim, dtype=torch.double)
    np.testing.assert_allclose(problem(X, noise=False), f(name, X.numpy()), rtol=1e-7, atol=1e-7)
    assert not problem.is_minimization_problem
    assert problem.num_decision + problem.num_environment == problem.dim


@every
def test_discrete_objective_equals_enumeration(name):
    problem = PROBLEMS[name]()
    X = torch.rand(3, 5, problem.num_decision, dtype=torch.double)
    expected = [
        [discrete_value_at_risk(name, x, problem.num_environment) for x in row] for row in X.numpy()
    ]
    np.testing.assert_allclose(problem.objective(X), expected, atol=1e-7)


@pytest.mark.parametrize("name", ONE_DIMENSIONAL)
def test_continuous_objective_equals_roots(name):
    problem = PROBLEMS[name]("continuous")
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(4, problem.num_decision, generator=generator, dtype=torch.double)
    expected = [continuous_value_at_risk(name, x) for x in X.numpy()]
    np.testing.assert_allclose(problem.objective(X), expected, atol=1e-6)


@pytest.mark.slow
def test_continuous_objective_of_two_has_its_level():
    problem = ValueAtRiskHartmann(1, "continuous")
    x = problem.optimal_decision
    v = problem.objective(x.unsqueeze(0)).item()
    assert v == pytest.approx(problem.optimal_value_at_risk, abs=1e-6)
    assert probability_of_two("hartmann_1_2", x.numpy(), v - 1e-5) < 0.1
    assert probability_of_two("hartmann_1_2", x.numpy(), v + 1e-5) > 0.1


def independent_optimum(name, kind):
    r"""One decision variable: a grid, then ever finer ones around the best."""
    d_w = 2 if name == "hartmann_1_2" else 1

    def risk(x):
        x = np.array([x])
        if kind == "discrete":
            return discrete_value_at_risk(name, x, d_w)
        return continuous_value_at_risk(name, x)

    lower, upper, best = 0.0, 1.0, (-np.inf, 0.0)
    for size in (401, *[21] * 6):
        grid = np.linspace(lower, upper, size)
        best = max(best, *((risk(x), x) for x in grid))
        width = 2 * (upper - lower) / (size - 1)
        lower, upper = max(0.0, best[1] - width), min(1.0, best[1] + width)
    return best[0]


@pytest.mark.parametrize("name", ["branin", "goldstein_price", "hartmann_1_2"])
def test_discrete_optimum_equals_search(name):
    problem = PROBLEMS[name]()
    expected = independent_optimum(name, "discrete")
    assert problem.optimal_value_at_risk == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["branin", "goldstein_price"])
def test_continuous_optimum_equals_search(name):
    problem = PROBLEMS[name]("continuous")
    expected = independent_optimum(name, "continuous")
    assert problem.optimal_value_at_risk == pytest.approx(expected, abs=1e-6)


@every
@kinds
def test_another_risk_and_the_points_of_the_distribution(name, kind):
    problem = PROBLEMS[name](kind)
    X = torch.rand(3, problem.num_decision, dtype=torch.double)
    inputs, weights = problem.environment.expand(X)
    values = problem(inputs, noise=False)
    torch.testing.assert_close(problem.objective(X, Expectation()), (values * weights).sum(dim=-1))
    if kind == "continuous":
        W = problem.environment.points
        assert W.min() >= 0.25
        assert W.max() <= 0.75
    else:
        expected_points, masses = discrete_law(problem.num_environment)
        np.testing.assert_allclose(problem.environment.points, expected_points, atol=1e-15)
        np.testing.assert_allclose(problem.environment.weights, masses, rtol=1e-12)


@every
def test_noise(name):
    problem = PROBLEMS[name]("continuous")
    X = torch.rand(4000, problem.dim, dtype=torch.double)
    noise = problem(X) - problem(X, noise=False)
    assert noise.std().item() == pytest.approx(0.1, rel=0.1)


def test_refuses_what_is_unknown():
    with pytest.raises(ValueError, match="Expected `distribution` to be one of"):
        ValueAtRiskBranin("uniform")
    with pytest.raises(
        ValueError, match=r"Expected 1 or 2 decision variables\. Got num_decision=3"
    ):
        ValueAtRiskHartmann(3)
    for X in (torch.rand(3, 2), torch.rand(3, 1) + 1):
        with pytest.raises(ValueError, match=r"`... x 1`, within the decision's bounds"):
            ValueAtRiskBranin().objective(X)
