r"""The worst case over an MMD ball against cone programs, and its minimax approximation."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import RBFKernel
from torch import Tensor

import botorch_risk.risk.mmd_interior_point as interior_point
from botorch_risk.risk import (
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    UncertifiedWorstCaseError,
    maximum_mean_discrepancy_worst_distribution,
)
from tests import oracles
from tests.risk.cases import risk_kernel

FAST, ALL = 30, 1_000
MOST_STEPS = 20  # of the interior point, for 16 programs at once


def worst_case(values: Tensor, weights: Tensor, matrix: Tensor, radius: float) -> Tensor:
    worst = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, radius)
    return (worst * values).sum(dim=-1)


def instance(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    r"""Smooth to nearly diagonal kernels, radii from 0 to huge, full and sparse weights."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 61))
    points = generator.uniform(size=(n, int(generator.integers(1, 4))))
    matrix = oracles.squared_exponential(points, 10 ** generator.uniform(-2, 0.5))
    values = generator.normal(size=n)
    if seed % 2 == 0:  # a smooth function of the points
        values = np.sin(5 * points @ generator.normal(size=points.shape[1]))
    weights = generator.dirichlet(np.full(n, generator.choice([0.1, 1.0, 10.0])))
    if seed % 5 == 0:
        weights = np.eye(n)[0]
    radius = generator.choice([0.0, 10.0, *10 ** generator.uniform(-3, 0.3, size=8)])
    return values, weights, matrix, float(radius)


def difference(seed: int) -> float:
    r"""In units of the range of the values; the distribution is checked to lie in the ball."""
    values, weights, matrix, radius = instance(seed)
    distribution = maximum_mean_discrepancy_worst_distribution(
        *map(torch.tensor, (values, weights, matrix)), radius
    ).numpy()
    assert (distribution >= 0).all()
    assert abs(distribution.sum() - 1) <= 1e-12
    assert (
        np.sqrt(max((distribution - weights) @ matrix @ (distribution - weights), 0))
        <= radius + 1e-7
    )
    expected = oracles.mmd_worst_case(values, weights, matrix, radius)
    return abs(distribution @ values - expected) / np.ptp(values)


def test_equals_the_cone_program() -> None:
    assert max(difference(seed) for seed in range(FAST)) <= 1e-6


@pytest.mark.slow
def test_equals_the_cone_program_on_many_instances() -> None:
    assert max(difference(seed) for seed in range(ALL)) <= 1e-6


def tensors(seed: int, n_w: int = 20, rows: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    r"""Values, weights and points in one dimension."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(n_w, 1, generator=generator, dtype=torch.float64)
    values = torch.randn(rows, n_w, generator=generator, dtype=torch.float64)
    weights = torch.rand(n_w, generator=generator, dtype=torch.float64)
    return values, weights / weights.sum(), points


def matrix_of(points: Tensor) -> Tensor:
    return torch.tensor(oracles.squared_exponential(points.numpy(), 0.2))


def test_radius_zero_and_huge() -> None:
    values, weights, points = tensors(0)
    matrix = matrix_of(points)
    risk = worst_case(values, weights, matrix, 0.0)
    torch.testing.assert_close(risk, (weights * values).sum(dim=-1))
    risk = worst_case(values, weights, matrix, 2.0)
    assert torch.equal(risk, values.amin(dim=-1))


def test_the_lowest_point_alone_is_the_worst_law_where_the_ball_holds_it() -> None:
    r"""Exactly, not up to the tolerance of the interior point."""
    points = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    matrix = risk_kernel(points, points)
    weights = torch.linspace(1, 2, 9, dtype=torch.double)
    weights = weights / weights.sum()
    values = (5 * points.squeeze(-1)).sin()
    lowest = int(values.argmin())
    away = -weights
    away[lowest] += 1
    distance = (away @ matrix @ away).sqrt().item()
    certain = torch.zeros(9, dtype=torch.double)
    certain[lowest] = 1.0
    within = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, 1.001 * distance)
    assert torch.equal(within, certain)
    beyond = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, 0.999 * distance)
    assert not torch.equal(beyond, certain)
    torch.testing.assert_close(beyond, certain, atol=5e-3, rtol=0)


def test_programs_end_when_they_are_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""Within few steps; the limit is for those that are not."""
    steps, advance = [], interior_point._advance

    def counted(*arguments: Any) -> Any:
        steps.append(len(arguments[1].costs))
        return advance(*arguments)

    monkeypatch.setattr(interior_point, "_advance", counted)
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(40, 2, generator=generator, dtype=torch.double)
    values = torch.randn(16, 40, generator=generator, dtype=torch.double)
    weights = torch.full((40,), 1 / 40, dtype=torch.double)
    worst_case(values, weights, risk_kernel(points, points), 0.1)
    assert 0 < len(steps) <= MOST_STEPS
    assert steps[-1] < 16  # those that are certified take no part


def test_points_that_are_nearly_one_exchange_all_their_mass_within_a_tiny_ball() -> None:
    r"""No direction is left out that takes up a share of the radius, however small it is."""
    matrix = torch.diag(torch.tensor([1.0, 1.0, 4e-13, 4e-13], dtype=torch.double))
    values = torch.tensor([0.3, 0.6, 1.0, 0.0], dtype=torch.double)
    weights = torch.tensor([0.05, 0.05, 0.8, 0.1], dtype=torch.double)
    risk = worst_case(values, weights, matrix, 1e-4)
    # What the exchange leaves of the squared radius is spent on the first two, along their values.
    left = (1e-8 - 2 * 4e-13 * 0.8**2) ** 0.5
    expected = 0.05 * 0.9 - left * (0.3**2 + 0.6**2) ** 0.5
    torch.testing.assert_close(risk, torch.tensor(expected).double(), rtol=0, atol=2e-8)


def test_constant_kernel_tells_no_distributions_apart() -> None:
    values, weights, _ = tensors(0)
    risk = worst_case(values, weights, torch.ones(20, 20), 1e-3)
    torch.testing.assert_close(risk, values.amin(dim=-1))


def test_worst_distribution_is_the_gradient() -> None:
    values, weights, points = tensors(0)
    values.requires_grad_()
    risk = worst_case(values, weights, matrix_of(points), 0.1)
    (gradient,) = torch.autograd.grad(risk.sum(), values)
    distribution = maximum_mean_discrepancy_worst_distribution(
        values, weights, matrix_of(points), 0.1
    )
    assert torch.equal(gradient, distribution)


def test_a_kernel_matrix_for_each_replicate() -> None:
    values, weights, points = tensors(0)
    values, kernel = values.view(2, 3, 20), risk_kernel
    both = torch.stack([points, points**2])
    for measure in (MaximumMeanDiscrepancyBall(0.1, kernel), MinimaxApproximation(0.1, kernel)):
        batched = measure.bind(SimpleNamespace(points=both))(values, weights)
        for replicate in range(2):
            single = measure.bind(SimpleNamespace(points=both[replicate]))
            expected = single(values[replicate], weights)
            torch.testing.assert_close(batched[replicate], expected, rtol=1e-7, atol=1e-7)


def test_gpytorch_kernels_in_single_precision() -> None:
    values, weights, points = tensors(0)
    kernel = RBFKernel()
    kernel.lengthscale = 0.2
    theirs = MaximumMeanDiscrepancyBall(0.1, kernel).bind(SimpleNamespace(points=points.float()))
    ours = MaximumMeanDiscrepancyBall(0.1, risk_kernel).bind(SimpleNamespace(points=points))
    risk = theirs(values.float(), weights.float())
    assert not risk.requires_grad
    torch.testing.assert_close(risk.double(), ours(values, weights), rtol=1e-4, atol=1e-4)


def test_a_tiny_ball_around_two_atoms_takes_the_second_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = torch.linspace(0, 1, 300, dtype=torch.float64).unsqueeze(-1)
    matrix = torch.exp(-2 * torch.cdist(points, points).square())
    weights = torch.zeros(300, dtype=torch.float64)
    weights[[0, 150]] = 0.5
    values = torch.sin(7 * points.T + torch.arange(4).unsqueeze(-1))
    values += torch.randn(4, 300, generator=torch.Generator().manual_seed(0)).double()
    apart = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, 1e-3) - weights
    assert ((apart @ matrix) * apart).sum(dim=-1).max().sqrt() <= 1e-3 + 1e-7
    monkeypatch.setattr(interior_point, "ATTEMPTS", interior_point.ATTEMPTS[:1])
    with pytest.raises(UncertifiedWorstCaseError, match=r"duality gap"):
        maximum_mean_discrepancy_worst_distribution(values, weights, matrix, 1e-3)


def test_what_cannot_be_certified_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interior_point, "ATTEMPTS", ((0.95, 1),))
    values, weights, points = tensors(0)
    with pytest.raises(UncertifiedWorstCaseError, match=r"duality gap .* Got .* with 20 points"):
        worst_case(values, weights, matrix_of(points), 0.1)


def test_bad_kernel_matrices() -> None:
    values, weights = torch.randn(2, 3), torch.full((3,), 1 / 3)
    bad = {
        r"`batch_shape x n_w x n_w`. Got": torch.ones(3, 2),
        r"`kernel_matrix: batch_shape x n_w x n_w` for": torch.eye(4),
        r"finite and symmetric. Got a largest difference of 1": torch.eye(3).index_fill(
            0, torch.tensor([1]), 1.0
        ),
        r"finite and symmetric": torch.eye(3) * torch.nan,
        r"semi-definite. Got the eigenvalue -1": -torch.eye(3),
    }
    for message, matrix in bad.items():
        with pytest.raises((BotorchTensorDimensionError, InputDataError), match=message):
            worst_case(values, weights, matrix, 0.1)
    points = SimpleNamespace(points=torch.rand(4, 1))
    for measure in (MaximumMeanDiscrepancyBall, MinimaxApproximation):
        with pytest.raises(BotorchTensorDimensionError, match=r"for the points. Got"):
            measure(0.1, lambda v, w: torch.eye(3)).bind(points)
        with pytest.raises(InputDataError, match=r"positive semi-definite"):
            measure(0.1, lambda v, w: -torch.eye(4)).bind(points)


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_bad_radius(radius: float) -> None:
    for measure in (MaximumMeanDiscrepancyBall, MinimaxApproximation):
        with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
            measure(radius, risk_kernel)
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        worst_case(torch.zeros(2), torch.ones(2) / 2, torch.eye(2), radius)
