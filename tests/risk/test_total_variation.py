r"""The worst case over a total-variation ball against linear programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.risk import (
    TotalVariationBall,
    total_variation_worst_case,
    total_variation_worst_distribution,
)
from tests import oracles

FAST, ALL = 100, 1_000


def instance(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    r"""One to 40 points, among them ties and points of weight 0, and any radius."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 41))
    values = generator.normal(size=n)
    if seed % 3 == 0:
        values = values.round()
    weights = generator.dirichlet(np.full(n, generator.choice([0.1, 1.0, 10.0])))
    if seed % 4 == 0 and n > 2:
        weights[generator.integers(n, size=n // 3)] = 0.0
        weights[generator.integers(n)] += 0.1
        weights /= weights.sum()
    radius = generator.choice([0.0, 2.0, 3.0, *generator.uniform(0, 2, size=7)])
    return values, weights, float(radius)


def difference(seed: int) -> float:
    values, weights, radius = instance(seed)
    expected = oracles.total_variation_worst_case(values, weights, radius)
    ours = total_variation_worst_case(torch.tensor(values), torch.tensor(weights), radius)
    return abs(ours.item() - expected)


def test_equals_the_linear_program() -> None:
    assert max(difference(seed) for seed in range(FAST)) <= 1e-9


@pytest.mark.slow
def test_equals_the_linear_program_on_many_instances() -> None:
    assert max(difference(seed) for seed in range(ALL)) <= 1e-9


def worst(values: list[float], weights: list[float], radius: float) -> Tensor:
    options = {"dtype": torch.float64}
    return total_variation_worst_distribution(
        torch.tensor(values, **options), torch.tensor(weights, **options), radius
    )


@pytest.mark.parametrize(
    ("values", "weights", "radius", "distribution"),
    [
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 0.0, [0.2, 0.3, 0.5]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 0.5, [0.45, 0.3, 0.25]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 1.2, [0.8, 0.2, 0.0]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 2.0, [1.0, 0.0, 0.0]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 7.0, [1.0, 0.0, 0.0]),
        ([1.0, 2.0, 3.0], [0.0, 0.5, 0.5], 0.5, [0.25, 0.5, 0.25]),  # weight 0 receives
        ([1.0, 2.0, 3.0], [1.0, 0.0, 0.0], 0.5, [1.0, 0.0, 0.0]),
        ([2.0], [1.0], 0.5, [1.0]),
    ],
)
def test_worst_distribution(
    values: list[float], weights: list[float], radius: float, distribution: list[float]
) -> None:
    expected = torch.tensor(distribution, dtype=torch.float64)
    torch.testing.assert_close(worst(values, weights, radius), expected, rtol=0, atol=1e-15)


def test_worst_distribution_is_the_gradient_and_lies_in_the_ball() -> None:
    values = torch.randn(5, 30, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(30, dtype=torch.float64).softmax(dim=-1)
    (gradient,) = torch.autograd.grad(
        total_variation_worst_case(values, weights, 0.6).sum(), values
    )
    distribution = total_variation_worst_distribution(values, weights, 0.6)
    assert torch.equal(gradient, distribution)
    assert (distribution >= 0).all()
    torch.testing.assert_close(distribution.sum(dim=-1), torch.ones(5, dtype=torch.float64))
    distance = (distribution - weights).abs().sum(dim=-1)
    torch.testing.assert_close(distance, torch.full_like(distance, 0.6))


def test_half_convention_moves_twice_as_much() -> None:
    values, weights = torch.randn(4, 10), torch.full((10,), 0.1)
    half = TotalVariationBall(0.3, half_convention=True)
    assert torch.equal(half(values, weights), TotalVariationBall(0.6)(values, weights))


def test_gradient_in_the_weights() -> None:
    values = torch.randn(6, dtype=torch.float64)
    weights = torch.rand(6, dtype=torch.float64).softmax(dim=-1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda distribution: total_variation_worst_case(values, distribution, 0.3), weights
    )


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_bad_radius(radius: float) -> None:
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        TotalVariationBall(radius)
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        total_variation_worst_case(torch.zeros(2), torch.full((2,), 0.5), radius)
