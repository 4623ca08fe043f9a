r"""The worst case over an MMD ball against cone programs, and its minimax approximation."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.risk import (
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    UncertifiedWorstCaseError,
    maximum_mean_discrepancy_worst_case,
    maximum_mean_discrepancy_worst_law,
)
from tests import oracles
from tests.contracts import risk_kernel

FAST, ALL = 100, 1_000


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
    r"""In units of the range of the values; the law is checked to lie in the ball."""
    values, weights, matrix, radius = instance(seed)
    law = maximum_mean_discrepancy_worst_law(
        *map(torch.tensor, (values, weights, matrix)), radius
    ).numpy()
    assert (law >= 0).all()
    assert abs(law.sum() - 1) <= 1e-12
    assert np.sqrt(max((law - weights) @ matrix @ (law - weights), 0)) <= radius + 1e-7
    expected = oracles.mmd_worst_case(values, weights, matrix, radius)
    return abs(law @ values - expected) / np.ptp(values)


def test_equals_the_cone_program() -> None:
    assert max(difference(seed) for seed in range(FAST)) <= 1e-6


@pytest.mark.slow
def test_equals_the_cone_program_on_many_instances() -> None:
    assert max(difference(seed) for seed in range(ALL)) <= 1e-6
