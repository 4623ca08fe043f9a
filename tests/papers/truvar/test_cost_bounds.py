r"""The theory's cost bounds against enumeration, and against a run that keeps them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import RBFKernel
from gpytorch.means import ZeroMean
from torch import Tensor

from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import (
    GuaranteedWidth,
    LevelSet,
    Maximize,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    cost_bounds,
    covering_cost,
)

LENGTHSCALE, NOISE = 0.2, 0.05


def domain(size: int) -> Tensor:
    return torch.linspace(0, 1, size, dtype=torch.double).unsqueeze(-1)


def prior(size: int) -> Tensor:
    X = domain(size)
    return torch.exp(-0.5 * ((X - X.T) / LENGTHSCALE).square())


def smallest_cost(
    covariance: np.ndarray, noise: np.ndarray, cost: np.ndarray, rows: list[int], deviation: float
) -> float:
    r"""Eq. (11) by enumeration of all collections of at most five samples."""
    best = math.inf
    for number in range(6):
        for samples in itertools.combinations_with_replacement(range(len(covariance)), number):
            S = list(samples)
            left = covariance
            if S:
                gram = covariance[np.ix_(S, S)] + np.diag(noise[S])
                left = covariance - covariance[:, S] @ np.linalg.solve(gram, covariance[S])
            if (np.diag(left)[rows] <= deviation**2 * (1 + 1e-9)).all():
                best = min(best, cost[S].sum())
    return best


@pytest.mark.parametrize("deviation", [0.9, 0.6, 0.3])
@pytest.mark.parametrize("rows", [[0], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("cost", [[1.0, 1.0, 1.0, 1.0], [1.0, 4.0, 2.0, 0.5]])
def test_greedy_covering_costs_little_more_than_the_cheapest(
    deviation: float, rows: list[int], cost: list[float]
) -> None:
    covariance, noise = prior(4), torch.full((4,), NOISE).double()
    within = torch.zeros(4, dtype=torch.bool)
    within[rows] = True
    costs = torch.tensor(cost, dtype=torch.double)
    found = covering_cost(covariance, noise, costs, within, deviation)
    least = smallest_cost(covariance.numpy(), noise.numpy(), costs.numpy(), rows, deviation)
    assert least - 1e-9 <= found
    # Wolsey's bound of greedy covering, with the excess left before the last sample.
    excess = sum(max(0.0, 1 - deviation**2) for _ in rows)
    assert found <= least * (1 + math.log(max(1.0, excess / 1e-3))) + max(cost)
    assert (found == 0) == (deviation >= 1)


def test_a_target_that_holds_already_costs_nothing_and_levels_are_chosen_by_cost() -> None:
    covariance, every = prior(5), torch.ones(5, dtype=torch.bool)
    one = torch.ones(5, dtype=torch.double)
    assert covering_cost(covariance, NOISE * one, one, every, 1.0) == 0.0
    noise = torch.stack([1e-6 * one, 0.5 * one], dim=-1)
    dear, cheap = (torch.tensor(each, dtype=torch.double) for each in ((9.0, 1.0), (1.0, 1.0)))
    only = torch.tensor([True, False, False, False, False])
    # A sample at noise 0.5 leaves 1/3, less than 0.81, at a ninth of the cost.
    assert covering_cost(covariance, noise, dear.expand(5, 2), only, 0.9) == 1.0
    assert covering_cost(covariance, noise, cheap.expand(5, 2), only, 0.01) == 1.0
    assert covering_cost(covariance, noise[:, 1], one, only, 0.1) == 50.0  # 1 / (1 + n / 0.5)


def greedy_cost(
    covariance: np.ndarray, noise: np.ndarray, cost: np.ndarray, rows: list[int], deviation: float
) -> float:
    r"""The cost of greedy samples by Eq. (3), with variances from Eqs. (19) and (20)."""

    def variances(samples: list[tuple[int, int]]) -> list[float]:
        points = [point for point, _ in samples]
        gram = np.array([[covariance[a, b] for b in points] for a in points])
        gram += np.diag([noise[sample] for sample in samples])
        known = [covariance[points, x] @ np.linalg.solve(gram, covariance[points, x]) for x in rows]
        return [covariance[x, x] - each for x, each in zip(rows, known, strict=True)]

    def above(samples: list[tuple[int, int]]) -> float:
        return sum(max(variance, deviation**2) for variance in variances(samples))

    every = list(np.ndindex(*noise.shape))
    samples: list[tuple[int, int]] = []
    left = [covariance[x, x] for x in rows]
    while max(left) > deviation**2 * (1 + 1e-12):
        now = sum(max(variance, deviation**2) for variance in left)
        gains = [(now - above([*samples, each])) / cost[each] for each in every]
        samples.append(every[int(np.argmax(gains))])
        left = variances(samples)
    return sum(float(cost[each]) for each in samples)


def test_one_sample_covers_both_points_of_a_noisy_neighbour() -> None:
    covariance = torch.tensor([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]]).double()
    noise, cost = torch.tensor([0.001, 10.0, 0.001]), torch.tensor([1.0, 0.5, 1.0])
    within = torch.tensor([True, True, False])
    # A sample of point 0 leaves the variances 0.001 / 1.001 and 1 - 0.64 / 1.001 < 0.65^2. It
    # lowers the sum by 1.155 at a cost of 1, a sample of point 1 by 0.149 at a cost of 0.5.
    assert covering_cost(covariance, noise, cost, within, deviation=0.65) == 1.0
    # Then a sample of point 1 leaves it 0.3606 - 0.3606^2 / 10.3606 = 0.348 < 0.595^2.
    assert covering_cost(covariance, noise, cost, within, deviation=0.595) == 1.5


def test_the_cost_is_that_of_greedy_sampling_under_unequal_noise_and_costs() -> None:
    generator = np.random.default_rng(0)
    for problem in range(100):
        size, levels = generator.integers(2, 7), generator.integers(1, 4)
        X = generator.random((size, 2))
        covariance = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1) / 0.4**2)
        covariance *= np.outer(*[np.exp(0.5 * generator.normal(size=size))] * 2)
        noise = np.exp(generator.normal(-2, 1.5, size=(size, levels)))
        cost = np.exp(generator.normal(size=(size, levels)))
        within = generator.random(size) < 0.7
        within[generator.integers(size)] = True
        deviation = generator.uniform(0.3, 0.9)
        tensors = (torch.from_numpy(each) for each in (covariance, noise, cost, within))
        expected = greedy_cost(covariance, noise, cost, list(np.flatnonzero(within)), deviation)
        assert covering_cost(*tensors, deviation) == pytest.approx(expected, rel=1e-9), problem


def by_hand(
    values: np.ndarray, size: int, found: Any, level: float | None, slack: float, epsilon: float
) -> None:
    r"""Eqs. (13) to (15), epoch by epoch, with the costs and widths that were found."""
    eta, total, before = 1.0, 0.0, math.inf
    rows = np.ones(size, dtype=bool)
    for cost, beta in zip(found.epoch_costs, found.squared_widths, strict=True):
        assert 4 * (1 + slack) * before > epsilon
        total += cost
        assert beta >= 2 * math.log(size * total**2 * math.pi**2 / (6 * 0.1)) - 1e-9
        covering = covering_cost(
            prior(size),
            torch.full((size,), NOISE).double(),
            torch.ones(size).double(),
            torch.from_numpy(rows),
            eta / math.sqrt(beta),
        )
        needed = covering * math.log(rows.sum() * beta / (slack**2 * eta**2)) + 1
        assert needed - 1e-6 <= cost
        width = (1 + slack) * eta
        rows = (
            values >= values.max() - 4 * width
            if level is None
            else np.abs(values - level) <= 2 * width
        )
        before, eta = eta, eta / 2
    assert 4 * (1 + slack) * before <= epsilon
    assert found.total == pytest.approx(total)


@pytest.mark.parametrize("level", [None, pytest.param(0.3, marks=pytest.mark.slow)])
def test_the_bounds_satisfy_the_equations_of_the_theorem(level: float | None) -> None:
    size, slack, epsilon = 8, 0.5, 1.5
    values = (5 * domain(size).squeeze(-1)).sin()
    goal = Maximize() if level is None else LevelSet(level)
    one = torch.ones(size, dtype=torch.double)
    found = cost_bounds(values, prior(size), NOISE * one, one, goal, epsilon, slack=slack)
    by_hand(values.numpy(), size, found, level, slack, epsilon)
    finer = cost_bounds(values, prior(size), NOISE * one, one, goal, epsilon / 2, slack=slack)
    assert finer.total > found.total
    assert finer.epoch_costs[: len(found.epoch_costs)] == found.epoch_costs


def test_a_run_keeps_the_bounds_and_is_accurate_at_the_total() -> None:
    size, slack, epsilon = 12, 0.5, 2.5
    X = domain(size)
    generator = torch.Generator().manual_seed(0)
    root = torch.linalg.cholesky(prior(size) + 1e-9 * torch.eye(size))
    values = (root @ torch.randn(size, 1, generator=generator, dtype=torch.double)).squeeze(-1)
    one = torch.ones(size, dtype=torch.double)
    bounds = cost_bounds(values, prior(size), NOISE * one, one, Maximize(), epsilon, slack=slack)
    kernel = RBFKernel().double()
    kernel.lengthscale = LENGTHSCALE

    def observe(row: int) -> float:
        noise = NOISE**0.5 * torch.randn(1, generator=generator, dtype=torch.double)
        return float(values[row] + noise)

    with validate_input_scaling(False):
        model = SingleTaskGP(
            X[:1],
            torch.tensor([[observe(0)]], dtype=torch.double),
            torch.full((1, 1), NOISE).double(),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
    posterior = DomainPosterior(model.requires_grad_(False), X)
    width = GuaranteedWidth(0.1, bounds.epoch_costs)
    options: Any = {"width": width, "r": 0.5, "slack": slack}
    state = TruncatedVarianceState.initial(X, Maximize(), **options).update(posterior, 1.0)
    spent = [0.0] * len(bounds.epoch_costs)
    while float(state.cost) < bounds.total and not bool(state.finished):
        spent[min(int(state.epoch), len(spent)) - 1] += 1.0
        if int(state.epoch) > len(spent):
            break
        row = int(TruncatedVarianceReduction(posterior, state, noise=NOISE).select().row)
        posterior.observe(row, observe(row), NOISE)
        state = state.update(posterior, 1.0)
    for used, most in zip(spent, bounds.epoch_costs, strict=True):
        assert used <= most
    accuracy = float(Maximize().accuracy(state.sets, values))
    assert accuracy <= epsilon


def test_raises() -> None:
    covariance, one = prior(4), torch.ones(4, dtype=torch.double)
    every = torch.ones(4, dtype=torch.bool)
    with pytest.raises(BotorchTensorDimensionError, match="Expected `covariance`"):
        covering_cost(covariance, one[:3], one, every, 0.5)
    with pytest.raises(BotorchTensorDimensionError, match="Expected `within`"):
        covering_cost(covariance, one, one, every[:3], 0.5)
    with pytest.raises(ValueError, match="finite `cost` > 0"):
        covering_cost(covariance, one, 0 * one, every, 0.5)
    with pytest.raises(ValueError, match="at most 3 samples"):
        covering_cost(covariance, one, one, every, 0.1, max_samples=3)
    with pytest.raises(BotorchTensorDimensionError, match="Expected 4 `values`"):
        cost_bounds(one[:3], covariance, one, one, Maximize(), 0.5)
    with pytest.raises(ValueError, match="slack"):
        cost_bounds(one, covariance, one, one, Maximize(), 0.5, slack=0.0)
