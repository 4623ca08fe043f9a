r"""Widths of the bounds and the information that they rest on, against numpy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.acquisition import bayesian_beta, information_gain, rkhs_beta
from tests import oracles


def covariance(num_points: int = 6, seed: int = 0) -> torch.Tensor:
    points = np.random.default_rng(seed).random((num_points, 2))
    return torch.from_numpy(oracles.squared_exponential(points, 0.4))


def gain(matrix: np.ndarray, rows: tuple[int, ...], noise: float) -> float:
    r"""1/2 log det(I + K / noise)."""
    inner = np.eye(len(rows)) + matrix[np.ix_(rows, rows)] / noise
    return 0.5 * np.linalg.slogdet(inner)[1]


def test_schedule_of_the_experiments() -> None:
    for t in (1, 2, 60):
        assert bayesian_beta(t) == pytest.approx(2 * math.log(t**2 * math.pi**2 / 0.6))
    assert bayesian_beta(3, delta=0.05, num_points=7) == pytest.approx(
        2 * math.log(7 * 9 * math.pi**2 / 0.3)
    )


def test_lemma_1() -> None:
    gains = torch.tensor([0.0, 1.5], dtype=torch.float64)
    betas = rkhs_beta(gains, noise_variance=0.25, rkhs_norm=2.0, delta=0.1)
    for gamma, beta in zip(gains.tolist(), betas.tolist(), strict=True):
        width = 2.0 + 0.5 * math.sqrt(2 * (gamma + 1 + math.log(10)))
        assert math.sqrt(beta) == pytest.approx(width)


def test_gain_of_greedy_choices_brackets_the_best() -> None:
    matrix, noise = covariance(), 0.1
    gains = information_gain(matrix, noise, 4).tolist()
    assert gains[0] == 0.0
    assert gains[1] == pytest.approx(0.5 * math.log(1 + 1 / noise))
    for t in range(1, 5):
        choices = itertools.combinations_with_replacement(range(6), t)
        best = max(gain(matrix.numpy(), rows, noise) for rows in choices)
        assert gains[t] <= best + 1e-12
        assert best <= gains[t] / (1 - 1 / math.e)


def test_gain_equals_its_determinant_and_points_repeat() -> None:
    r"""Two points observed three times: one of them twice."""
    matrix, noise = covariance(2), 0.1
    expected = max(gain(matrix.numpy(), rows, noise) for rows in ((0, 1, 0), (0, 1, 1)))
    assert information_gain(matrix, noise, 3)[-1].item() == pytest.approx(expected)


def test_gain_of_a_batch_equals_the_loop() -> None:
    batch = torch.stack([covariance(seed=seed) for seed in range(3)])
    together = information_gain(batch, 0.1, 5)
    assert together.shape == (3, 6)
    for index in range(3):
        torch.testing.assert_close(together[index], information_gain(batch[index], 0.1, 5))


def test_bad_input() -> None:
    for delta in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)\. Got delta="):
            bayesian_beta(1, delta)
    with pytest.raises(ValueError, match=r"`t` and `num_points` of at least 1\. Got t=0"):
        bayesian_beta(0)
    options = {"information_gain": 1.0, "noise_variance": 0.1, "rkhs_norm": 1.0}
    for name in options:
        with pytest.raises(ValueError, match=f"`{name}` to be finite and >= 0"):
            rkhs_beta(**{**options, name: -1.0}, delta=0.1)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x N x N`"):
        information_gain(torch.ones(2, 3), 0.1, 1)
    with pytest.raises(InputDataError, match="Expected a finite `covariance`"):
        information_gain(covariance() * torch.nan, 0.1, 1)
    for noise, count in ((0.0, 1), (0.1, -1)):
        with pytest.raises(ValueError, match="Expected a positive `noise_variance` and"):
            information_gain(covariance(), noise, count)
