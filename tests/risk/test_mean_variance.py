r"""Bounds of mean-variance over boxes of values, against grids and ascent."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.risk import Expectation, MeanVariance
from tests.risk.test_measures import draw


def grid_extremes(
    measure: MeanVariance, lower: Tensor, upper: Tensor, weights: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    axes = [np.linspace(*ends, steps) for ends in zip(lower.tolist(), upper.tolist(), strict=True)]
    values = torch.tensor(list(product(*(axis.tolist() for axis in axes))), dtype=torch.float64)
    risk = measure(values, weights)
    return risk.min(), risk.max()


@pytest.mark.parametrize("risk_aversion", [1e-9, 0.3, 2.0, 100.0])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_of_mean_variance_against_a_grid(risk_aversion: float, seed: int) -> None:
    measure = MeanVariance(risk_aversion)
    lower, weights = draw(n_w=4, seed=seed, rows=1)
    lower, weights = lower[0], weights[0]
    upper = lower + torch.rand(4, dtype=torch.float64)
    least, most = measure.bounds(lower, upper, weights)
    lowest, highest = grid_extremes(measure, lower, upper, weights, 21)
    slack = 1e-9 * (1 + risk_aversion)
    assert least <= lowest + slack
    assert most >= highest - slack
    # Moving a value by half a step of the grid from the maximum costs little: the bound is exact.
    assert most - highest <= 0.03 * (1 + risk_aversion)
    # Dividing one point between its ends changes the variance by a quarter of its width squared.
    part = (weights * (upper - lower).square()).max() / 4
    assert lowest - least <= 1e-6 + risk_aversion * part
    plain = Expectation()(upper, weights)
    assert most <= plain + slack


@pytest.mark.parametrize("risk_aversion", [0.1, 1.0, 10.0])
def test_upper_bound_of_mean_variance_is_attained(risk_aversion: float) -> None:
    measure = MeanVariance(risk_aversion)
    lower, weights = draw(rows=50, n_w=10)
    upper = lower + torch.rand_like(lower)
    values = ((lower + upper) / 2).requires_grad_()
    bound = measure.bounds(lower, upper, weights)[1]
    for _ in range(3_000):  # projected gradient ascent
        (gradient,) = torch.autograd.grad(measure(values, weights).sum(), values)
        step = gradient / weights.clamp_min(1e-3) / (2 * risk_aversion)
        values = (values + step).clamp(lower, upper).detach().requires_grad_()
    torch.testing.assert_close(measure(values, weights).detach(), bound, rtol=1e-6, atol=1e-6)


def test_bounds_of_mean_variance_are_differentiable() -> None:
    lower, weights = draw(rows=3)
    upper = (lower + torch.rand_like(lower)).requires_grad_()
    lower.requires_grad_()
    measure = MeanVariance(0.7)
    assert torch.autograd.gradcheck(
        lambda low, up: measure.bounds(low, up, weights), (lower, upper)
    )


def test_bounds_in_float32_and_of_equal_values() -> None:
    values, weights = draw()
    single = MeanVariance(0.7).bounds(values.float(), values.float() + 1, weights.float())
    double = MeanVariance(0.7).bounds(values, values + 1, weights)
    for ours, theirs in zip(single, double, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


def test_bounds_do_not_see_points_of_weight_zero_beside_values_of_zero() -> None:
    lower, upper = torch.tensor([0.0, -1.0, 5.0]), torch.tensor([0.0, 2.0, 6.0])
    measure, weights = MeanVariance(0.7), torch.tensor([0.5, 0.5, 0.0])
    found = measure.bounds(lower, upper, weights)
    expected = measure.bounds(lower[:2], upper[:2], weights[:2])
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))


def test_without_aversion_the_bounds_are_the_means() -> None:
    lower, upper = torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[0.5, 1.5, 4.0]])
    weights = torch.tensor([0.5, 0.25, 0.25])
    found = MeanVariance(0.0).bounds(lower, upper, weights)
    torch.testing.assert_close(torch.stack(found).flatten(), torch.tensor([0.75, 1.625]))
