r"""Newsvendors, over a box and a mixed space."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf_mixed, optimize_acqf_mixed_alternating
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from botorch.utils.testing import BaseTestProblemTestCaseMixIn, BotorchTestCase
from botorch_risk_bench.problems import MixedNewsvendor, Newsvendor
from scipy.stats import burr12

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.models import one_hot_inputs
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust import robust
from botorch_risk.strategies import Box, risk_search
from tests import oracles
from tests.strategies.loops import play

FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}


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


def test_refuses_parts_of_whole_numbers() -> None:
    X = torch.tensor([[5.0, 2.0, 1.0], [5.0, 2.5, 1.0]], dtype=torch.double)
    assert MixedNewsvendor().objective(X[:1]).shape == (1,)
    with pytest.raises(ValueError, match=r"whole numbers in the columns \[1, 2\] of `X`. Got 2.5"):
        MixedNewsvendor().objective(X)


@pytest.mark.slow
def test_the_optimum_of_the_mixed_newsvendor_is_approached() -> None:
    problem = MixedNewsvendor()
    box = Box(problem.decision_bounds, problem.discrete_inds[:1], problem.categorical_inds)
    known = {"environment": problem.environment, "risk_measure": ConditionalValueAtRisk(0.2)}
    options = {"reporting": "posterior_mean_everywhere", "num_restarts": 4, "raw_samples": 64}
    strategy = risk_search(box, [0, 1], num_initial=40, **known, **options)
    noisy = MixedNewsvendor(noise_std=0.1)
    asked = SimpleNamespace(
        bounds=noisy.decision_bounds,
        draw_contexts=noisy.draw_contexts,
        sample_repeats=noisy.sample_repeats,
    )
    play(strategy, 4, problem=asked)
    regret = problem.optimal_conditional_value_at_risk - problem.objective(strategy.recommend())
    assert (regret < 0.3).all()


# A user's own loop with BoTorch's optimisers.


@pytest.fixture(scope="module")
def newsvendor() -> dict[str, Any]:
    problem = MixedNewsvendor()
    box = Box(problem.decision_bounds, [1], [2])
    X = box.initial([0], 40)[0]
    W = problem.environment.points[torch.arange(40) % len(problem.environment.points)]
    pairs = torch.cat([X, W], dim=-1)
    transform = one_hot_inputs(problem.bounds, categories=[2])
    Y = problem(pairs).unsqueeze(-1)
    gp = SingleTaskGP(pairs, Y, input_transform=transform).eval()
    measure = ConditionalValueAtRisk(problem.risk_level)
    bound = RiskUpperConfidenceBound(gp, problem.environment, measure, beta=4.0)
    risks, options = robust(gp, problem.environment, measure)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    improvement = qLogExpectedImprovement(risks, best_f=1.0, sampler=sampler, **options)
    return {"bound": bound, "robust": improvement, "box": box}


@pytest.mark.parametrize("name", ["bound", "robust"])
@pytest.mark.slow
def test_botorchs_mixed_optimisers_on_the_newsvendor(newsvendor: Any, name: str) -> None:
    acqf, box = newsvendor[name], newsvendor["box"]
    with manual_seed(0):
        found, value = optimize_acqf_mixed_alternating(
            acqf, box.bounds, box.discrete_dims, box.cat_dims, **FAST
        )
        features = [{1: 3.0, 2: float(supplier)} for supplier in range(3)]
        fixed, fixed_value = optimize_acqf_mixed(
            acqf, box.bounds, q=1, fixed_features_list=features, **FAST
        )
    assert torch.equal(box.checked(found), found) and torch.equal(box.checked(fixed), fixed)
    assert fixed[0, 1] == 3 and fixed_value.isfinite()
    if name == "bound":
        _, ours = optimize_acqf_replicates(
            acqf, box.bounds, seeds=0, discrete_dims=box.discrete_dims, cat_dims=box.cat_dims
        )
        assert ours.item() >= max(value.item(), fixed_value.item()) - 1e-6
