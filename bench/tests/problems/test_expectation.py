r"""Problems of an expectation."""

import math
import pickle

import numpy as np
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from botorch_risk_bench.problems import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    ExpectationTestProblem,
    Newsvendor,
)
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import burr12, cauchy, kstest, norm
from torch import Tensor
from torch.distributions import Distribution, Normal

from botorch_risk.test_functions.closed_forms import FORMS


class Product(ExpectationTestProblem):
    r"""`x w`, so that the expectation is `x E[W]`; a third of W is clipped to 0."""

    num_decision = num_environment = 1
    optimal_expectation = 0.5
    _optimal_decision = (1.0,)

    @property
    def marginals(self) -> Distribution:
        return Normal(torch.tensor(0.2, dtype=torch.double), 0.4)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X.prod(dim=-1)


def mean_of_w() -> float:
    distribution = norm(0.2, 0.4)
    return distribution.expect(lambda w: w, lb=0, ub=1) + distribution.sf(1.0)


def test_expectation_is_that_of_the_clipped_distribution() -> None:
    x = torch.tensor([[0.0], [0.25], [1.0]], dtype=torch.double)
    expected = [0.0, 0.25 * mean_of_w(), mean_of_w()]
    assert Product().objective(x).tolist() == pytest.approx(expected, abs=1e-9)
    assert Product().objective(x.reshape(3, 1, 1)).shape == (3, 1)


def test_another_risk_is_taken_over_the_points() -> None:
    x = torch.tensor([[0.5]], dtype=torch.double)
    worst = Product().objective(x, risk=lambda values, weights: values.amin(dim=-1))
    assert worst.tolist() == [0.0]


def test_samples_are_clipped_or_raw() -> None:
    draws = Product().sample_environment(4000, torch.Generator().manual_seed(0))
    assert (draws == 0).double().mean().item() == pytest.approx(norm(0.2, 0.4).cdf(0), abs=0.02)
    raw = Product().sample_environment(4000, torch.Generator().manual_seed(0), clipped=False)
    assert raw.min() < 0
    torch.testing.assert_close(raw.clamp(0, 1), draws, rtol=0, atol=1e-9)


def test_the_best_decision_is_in_the_dtype_of_the_bounds() -> None:
    problem = Product(dtype=torch.float32)
    assert problem.optimal_decision.dtype == torch.float32
    assert problem.objective(problem.optimal_decision).dtype == torch.float32


PROBLEMS = {
    "ackley_1": lambda **options: EnvironmentalAckley(1, **options),
    "ackley_4": lambda **options: EnvironmentalAckley(4, **options),
    "branin": EnvironmentalBranin,
    "hartmann": EnvironmentalHartmann,
    "complicated": lambda **options: EnvironmentalHartmann("complicated", **options),
    "newsvendor": Newsvendor,
}

every = pytest.mark.parametrize("name", PROBLEMS)


class TestBotorchContracts(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = [build() for build in PROBLEMS.values()]  # noqa: RUF012


# The distributions in numpy: mixtures of scipy's, in equal parts.
EIGHT = [
    *(norm(m, s) for m, s in ((0.1, 0.02), (0.3, 0.075), (0.4, 0.1), (0.5, 0.1))),
    *(norm(m, s) for m, s in ((0.7, 0.075), (0.8, 0.03))),
    *(cauchy(m, 0.02) for m in (0.2, 0.8)),
]

MIXTURES = {
    "ackley_1": [norm(0.5, 0.15)],
    "ackley_4": [norm(0.5, 0.15)],
    "branin": [norm(0.5, 0.1)],
    "hartmann": [norm(0.5, 0.1)],
    "complicated": EIGHT,
    "newsvendor": [burr12(2, 20)],
}


def quadrature(parts, panels=132, order=16):
    r"""Nodes and masses of a clipped mixture: Gauss-Legendre panels, and the bounds."""
    unit, lengths = np.polynomial.legendre.leggauss(order)
    w = ((np.arange(panels)[:, None] + (unit + 1) / 2) / panels).ravel()
    density = np.mean([part.pdf(w) for part in parts], axis=0)
    masses = np.tile(lengths / 2 / panels, panels) * density
    ends = np.mean([[part.cdf(0), part.sf(1)] for part in parts], axis=0)
    return np.r_[0, w, 1], np.r_[ends[0], masses, ends[1]]


def ackley(z):
    root, waves = np.sqrt(np.mean(z**2, axis=-1)), np.mean(np.cos(2 * np.pi * z), axis=-1)
    return 20 * np.exp(-0.2 * root) + np.exp(waves) - 20 - math.e


def branin(u, v):
    square = (v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6) ** 2
    return square + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10


ALPHA = np.array([1.0, 1.2, 3.0, 3.2])

A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)

P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def f(name, X):
    r"""The function in numpy at `... x d`."""
    if name.startswith("ackley"):
        return ackley(65.536 * X - 32.768)
    if name == "branin":
        x, w = X[..., :2], X[..., 2:]
        first = branin(15 * x[..., 0] - 5, 15 * w[..., 0])
        return -np.sqrt(first * branin(15 * w[..., 1] - 5, 15 * x[..., 1]))
    if name == "newsvendor":
        x, w = X[..., 0], X[..., 1]
        return 9 * np.minimum(x, w) + np.maximum(0, x - w) - 5 * x
    return np.sum(ALPHA * np.exp(-np.sum(A * (X[..., None, :] - P) ** 2, axis=-1)), axis=-1)


def expectation(name, x):
    r"""The expectation at one decision, by one-dimensional quadratures in numpy."""
    w, masses = quadrature(MIXTURES[name])
    if name == "branin":
        first = masses @ np.sqrt(branin(15 * x[0] - 5, 15 * w))
        return -first * (masses @ np.sqrt(branin(15 * w - 5, 15 * x[1])))
    X = np.column_stack([np.tile(x, (len(w), 1)), w])
    return masses @ f(name, X)


def expected_ackley_4():
    r"""At the centre: the root over the cube of half-axes, the cosines as a product."""
    w, masses = quadrature(MIXTURES["ackley_4"])
    waves = math.exp(2 / 6) * (masses @ np.exp(np.cos(2 * np.pi * (65.536 * w - 32.768)) / 6)) ** 4
    unit, lengths = np.polynomial.legendre.leggauss(32)
    z = np.r_[32.768 * (unit + 1) / 2, 32.768]
    half = np.r_[32.768 * lengths * norm(0, 9.8304).pdf(z[:-1]), 2 * norm.sf(32.768 / 9.8304)]
    squares = z**2
    pairs, weights = np.add.outer(squares, squares).ravel(), np.outer(half, half).ravel()
    roots = sum(
        mass * (weights @ np.exp(-0.2 * np.sqrt((pairs + pair) / 6)))
        for pair, mass in zip(pairs, weights, strict=True)
    )
    return 20 * roots + waves - 20 - math.e


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
def test_function_equals_numpy(name, batch_shape, dtype):
    problem = PROBLEMS[name](dtype=dtype)
    X = torch.rand(*batch_shape, 4, problem.dim, dtype=dtype)
    values = problem(X)
    assert values.shape == (*batch_shape, 4)
    assert values.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(values, f(name, X.double().numpy()), rtol=tolerance, atol=tolerance)
    assert not problem.is_minimization_problem


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_expectation_equals_numpy(name, dtype):
    problem = PROBLEMS[name](dtype=dtype)
    X = torch.rand(2, 3, problem.num_decision, dtype=dtype)
    values = problem.objective(X)
    assert values.shape == (2, 3)
    assert values.dtype == dtype
    if name == "ackley_4":
        found = problem.objective(problem.optimal_decision).item()
        assert found == pytest.approx(expected_ackley_4(), abs=3e-6)
        return
    expected = [[expectation(name, x) for x in row] for row in X.double().numpy()]
    tolerance = {"newsvendor": 1e-5}.get(name, 1e-7) if dtype == torch.float64 else 1e-5
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance)


def brute_force_optimum(name):
    if name == "branin":  # a product: each decision variable by itself
        best = [0.3, 0.3]
        for axis in range(2):

            def loss_along(x, axis=axis):
                return -expectation(name, np.where(np.arange(2) == axis, x, best))

            grid = np.linspace(0, 1, 401)
            near = grid[np.argmin([loss_along(x) for x in grid])]
            found = minimize_scalar(loss_along, bounds=(near - 0.01, near + 0.01))
            best[axis] = found.x
        return -found.fun
    w, masses = quadrature(MIXTURES[name])
    factor = ALPHA * (masses @ np.exp(-A[:, 5] * (w[:, None] - P[:, 5]) ** 2))

    def loss(x):
        return -factor @ np.exp(-np.sum(A[:, :5] * (x - P[:, :5]) ** 2, axis=1))

    starts = [*P[:, :5], *np.random.default_rng(0).random((40, 5))]
    options = {"ftol": 1e-15, "gtol": 1e-9}
    return max(-minimize(loss, x, bounds=[(0, 1)] * 5, options=options).fun for x in starts)


@pytest.mark.parametrize("name", ["branin", "hartmann", "complicated"])
@pytest.mark.slow
def test_optimum_equals_brute_force(name):
    problem = PROBLEMS[name]()
    expected = brute_force_optimum(name)
    assert problem.optimal_expectation == pytest.approx(expected, abs=1e-7)
    found = problem.objective(problem.optimal_decision).item()
    assert found == pytest.approx(expected, abs=1e-6)


def test_optimum_of_ackley_is_that_of_the_paper_to_its_digits():
    problem = EnvironmentalAckley()
    assert problem.optimal_expectation == pytest.approx(-10.9523, abs=5e-5)  # the public program's
    assert expectation("ackley_1", np.array([0.5, 0.5])) == pytest.approx(-10.95227124, abs=1e-8)
    assert EnvironmentalAckley(4).optimal_expectation == pytest.approx(
        expected_ackley_4(), abs=3e-6
    )


@every
def test_points_of_the_law_give_the_expectation_nearly(name):
    problem = PROBLEMS[name]()
    X = torch.rand(4, problem.num_decision, dtype=torch.double)
    approximate = problem.objective(X, risk=lambda values, weights: (values * weights).sum(-1))
    torch.testing.assert_close(approximate, problem.objective(X), rtol=0, atol=5e-3)
    worst = problem.objective(X, risk=lambda values, weights: values.amin(dim=-1))
    assert (worst < approximate).all()


@every
def test_samples_follow_the_law(name):
    problem = PROBLEMS[name]()
    seeds = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    raw = problem.sample_environment(3000, seeds, clipped=False)
    assert raw.shape == (2, 3000, problem.num_environment)
    for coordinate in raw.reshape(-1, problem.num_environment).T:
        cdf = lambda w: np.mean([part.cdf(w) for part in MIXTURES[name]], axis=0)  # noqa: E731
        assert kstest(coordinate.numpy(), cdf).pvalue > 1e-3
        found = problem.marginals.cdf(coordinate)
        torch.testing.assert_close(
            found, torch.from_numpy(cdf(coordinate.numpy())), rtol=1e-10, atol=0
        )
    clipped = problem.sample_environment(3000, torch.Generator().manual_seed(1))
    torch.testing.assert_close(clipped, raw[1].clamp(0, 1), rtol=0, atol=1e-9)


@every
def test_gradient_of_the_objective(name):
    problem = PROBLEMS[name]()
    X = torch.rand(2, problem.num_decision, dtype=torch.double).requires_grad_()
    assert torch.autograd.gradcheck(problem.objective, X, atol=1e-4)


@every
def test_pickle_and_noise(name):
    problem = pickle.loads(pickle.dumps(PROBLEMS[name](noise_std=0.5)))
    X = torch.rand(2000, problem.dim, dtype=torch.double)
    noise = problem(X) - problem(X, noise=False)
    assert noise.std().item() == pytest.approx(0.5, rel=0.1)
    assert torch.equal(problem(X, noise=False), problem.evaluate_true(X))


def test_refuses_decisions_that_are_none():
    problem = EnvironmentalBranin()
    for X in (torch.rand(3, 4), torch.rand(3, 2) + 1, torch.full((1, 2), math.nan)):
        with pytest.raises(ValueError, match=r"shape `... x 2`, within the decision's bounds"):
            problem.objective(X)


def test_refuses_unknown_variants():
    with pytest.raises(ValueError, match="Expected 1 or 4 environmental variables"):
        EnvironmentalAckley(2)
    with pytest.raises(ValueError, match="Expected `distribution` to be one of"):
        EnvironmentalHartmann("uniform")


def test_the_product_of_branins_has_the_shape_of_the_closed_form() -> None:
    X = torch.rand(500, 4, dtype=torch.double, generator=torch.Generator().manual_seed(4))
    closed = FORMS["branin-product"].formula(list(X.unbind(dim=-1)))
    theirs = EnvironmentalBranin().evaluate_true(X)
    assert torch.corrcoef(torch.stack([closed, theirs]))[0, 1] > 0.999
