r"""Newsvendors, over a box and a mixed space."""

import numpy as np
import pytest
import torch
from botorch.utils.testing import BaseTestProblemTestCaseMixIn, BotorchTestCase
from scipy.stats import burr12

from botorch_risk.risk import Expectation
from botorch_risk.test_functions import MixedNewsvendor, Newsvendor
from tests import oracles


def test_optimum_of_the_newsvendor_is_the_median_of_the_demand():
    problem = Newsvendor()
    x = problem.optimal_decision.item()
    assert x == pytest.approx(burr12(2, 20).median(), abs=1e-12)
    sold = burr12(2, 20).expect(lambda w: np.minimum(x, w), epsabs=1e-12)
    assert problem.optimal_expectation == pytest.approx(8 * sold - 4 * x, abs=1e-8)


def test_profit_by_hand():
    problem = Newsvendor()
    X = torch.tensor([[0.5, 0.2], [0.2, 0.5], [1.0, 1.0]], dtype=torch.double)
    sold_out, left_over = 9 * 0.2 - 5 * 0.2, 9 * 0.2 + 0.3 - 5 * 0.5
    assert problem(X).tolist() == pytest.approx([left_over, sold_out, 4.0])


def test_demand_is_burrs():
    uniforms = torch.linspace(0.01, 0.99, 20, dtype=torch.double)
    np.testing.assert_allclose(Newsvendor().marginals.icdf(uniforms), burr12(2, 20).ppf(uniforms))


W = np.arange(33) / 32
MASSES = np.exp(-((W - 0.5) ** 2) / (2 * 0.15**2))

MASSES /= MASSES.sum()

SUPPLIERS = [(15, 3.0, 0.0), (20, 2.4, 0.2), (30, 1.7, 0.6)]  # units of a lot, cost, loss


class TestBotorchContracts(BotorchTestCase, BaseTestProblemTestCaseMixIn):
    functions = [MixedNewsvendor(), MixedNewsvendor(noise_std=0.1)]  # noqa: RUF012


def profit(price: float, lots: int, supplier: int, w: np.ndarray) -> np.ndarray:
    units, cost, loss = SUPPLIERS[supplier]
    demand = 400 * np.exp(-price / 4) * (0.4 + 1.2 * w)
    received = lots * units * (1 - loss * (1 - w))
    sold = np.minimum(demand, received)
    return (price * sold + 0.5 * (received - sold) - cost * lots * units) / 100


def risk(price: float, lots: int, supplier: int) -> float:
    return oracles.conditional_value_at_risk(profit(price, lots, supplier, W), MASSES, 0.2)


def test_profit_equals_numpy() -> None:
    generator = np.random.default_rng(0)
    rows = [
        (generator.uniform(3, 10), int(lots), supplier, generator.uniform())
        for lots in range(1, 9)
        for supplier in range(3)
    ]
    expected = [profit(*row[:3], np.array(row[3])) for row in rows]
    X = torch.tensor(rows, dtype=torch.float64)
    np.testing.assert_allclose(MixedNewsvendor()(X), expected, rtol=1e-12)


def test_objective_equals_enumeration() -> None:
    rows = [(3.0, 1, 0), (4.5, 8, 2), (10.0, 5, 1), (7.0, 3, 1)]
    found = MixedNewsvendor().objective(torch.tensor(rows, dtype=torch.float64))
    np.testing.assert_allclose(found, [risk(*row) for row in rows], rtol=1e-10)
    by_expectation = MixedNewsvendor().objective(
        torch.tensor(rows, dtype=torch.float64), Expectation()
    )
    np.testing.assert_allclose(by_expectation, [profit(*row, W) @ MASSES for row in rows])


def best_price(lots: int, supplier: int) -> tuple[float, float]:
    r"""Ever finer grids around the best price, which is the best of 281 first."""
    lower, upper, best = 3.0, 10.0, (-np.inf, 0.0)
    for size in (281, *[21] * 6):
        grid = np.linspace(lower, upper, size)
        best = max(best, *((risk(price, lots, supplier), price) for price in grid))
        width = 2 * (upper - lower) / (size - 1)
        lower, upper = max(3.0, best[1] - width), min(10.0, best[1] + width)
    return best


@pytest.mark.slow
def test_optimum_equals_enumeration() -> None:
    every = {(n, s): best_price(n, s) for n in range(1, 9) for s in range(3)}
    lots, supplier = max(every, key=lambda key: every[key])
    value, price = every[lots, supplier]
    problem = MixedNewsvendor()
    assert problem.optimal_conditional_value_at_risk == pytest.approx(value, abs=1e-7)
    assert problem.optimal_decision.tolist() == pytest.approx([price, lots, supplier], abs=1e-5)


def test_the_cheapest_supplier_is_best_on_average_only() -> None:
    price = torch.linspace(3, 10, 701, dtype=torch.float64)
    lots, supplier = (torch.arange(*ends, dtype=torch.float64) for ends in ((1, 9), (3,)))
    columns = torch.cartesian_prod(price, lots, supplier)
    problem = MixedNewsvendor()
    means = problem.objective(columns, Expectation())
    assert columns[means.argmax(), 2] == 2
    assert means.max().item() == pytest.approx(3.12, abs=0.005)
    assert columns[problem.objective(columns).argmax(), 2] == 1
