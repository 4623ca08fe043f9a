r"""Widths of the papers' theorems against their formulas, and the information they rest on."""

import itertools
import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.papers import (
    heteroscedastic_beta,
    information_gain,
    information_of_readings,
    learnt_context_beta,
    random_exploration_beta,
    rkhs_beta,
)
from tests import oracles

SLOPES = {"side_length": 3.0, "slope_factor": 2.0, "slope_scale": 0.7}


def covariance(num_points: int = 6, seed: int = 0) -> Tensor:
    points = np.random.default_rng(seed).random((num_points, 2))
    return torch.from_numpy(oracles.squared_exponential(points, 0.4))


def gain(matrix: np.ndarray, rows: tuple[int, ...], noise: np.ndarray) -> float:
    r"""1/2 log(det(S + K) / det(S))."""
    diagonal = np.diag(noise[list(rows)])
    joint = diagonal + matrix[np.ix_(rows, rows)]
    return 0.5 * (np.linalg.slogdet(joint)[1] - np.linalg.slogdet(diagonal)[1])


@pytest.mark.parametrize("t", [1, 2, 10, 1000])
def test_theorems_1_and_2_of_learnt_contexts(t: int) -> None:
    grid = t**2 * 4 * 2.0 * 0.7 * 3.0 * math.sqrt(math.pi) / 2
    printed = 2 * np.log(t**2 / np.sqrt(2 * np.pi)) + 2 * 4 * np.log(grid)
    assert learnt_context_beta(t, 4, **SLOPES) == pytest.approx(printed)
    assert math.isfinite(learnt_context_beta(t, 300, **SLOPES))  # a grid of more than 1e308 points


@pytest.mark.parametrize("t", [2, 10, 1000])
def test_theorem_6_5_of_random_exploration(t: int) -> None:
    half = (t / 2) ** 2
    grid = half * 4 * 0.7 * 3.0 * math.sqrt(math.log(4 * 4 * 2.0 / 0.05))
    printed = 2 * np.log(half * 2 * np.pi**2 / (3 * 0.05)) + 2 * 4 * np.log(grid)
    assert random_exploration_beta(t, 4, **SLOPES, delta=0.05) == pytest.approx(printed)


def test_a_grid_has_at_least_one_point_and_a_width_is_at_least_zero() -> None:
    flat = {**SLOPES, "slope_scale": 1e-9}
    assert learnt_context_beta(1, 3, **flat) == 0.0
    assert learnt_context_beta(5, 3, **flat) == pytest.approx(
        2 * math.log(25 / math.sqrt(2 * math.pi))
    )
    assert random_exploration_beta(6, 3, **flat) == pytest.approx(
        2 * math.log(9 * 2 * math.pi**2 / 0.3)
    )


def test_lemma_1_of_equal_noise() -> None:
    gains = torch.tensor([0.0, 1.5], dtype=torch.double)
    betas = rkhs_beta(gains, noise_variance=0.25, rkhs_norm=2.0, delta=0.1)
    for gamma, beta in zip(gains.tolist(), betas.tolist(), strict=True):
        width = 2.0 + 0.5 * math.sqrt(2 * (gamma + 1 + math.log(10)))
        assert math.sqrt(beta) == pytest.approx(width)


def test_equation_8_of_a_batch_is_a_ratio_of_determinants() -> None:
    r"""Another noise at each point of each replicate."""
    X = torch.rand(2, 6, 1, dtype=torch.double)
    noise = 0.01 + torch.rand(2, 6, 1, dtype=torch.double)
    Y = (X - X.mean(dim=-2, keepdim=True)) / X.std(dim=-2, keepdim=True)
    model = SingleTaskGP(X, Y, noise, outcome_transform=None)
    information = information_of_readings(model)
    beta = heteroscedastic_beta(information, rkhs_norm=1.5, delta=0.2)
    matrices = model.covar_module(X).to_dense().detach().numpy()
    for one in range(2):
        expected = gain(matrices[one], tuple(range(6)), noise[one].flatten().numpy())
        assert information[one].item() == pytest.approx(expected)
        width = math.sqrt(2 * math.log(math.exp(expected) / 0.2)) + 1.5
        assert math.sqrt(beta[one].item()) == pytest.approx(width)


@pytest.mark.slow
def test_bounds_of_equation_8_contain_a_function_of_that_norm() -> None:
    r"""In all of 40 experiments, though one in ten may fail: the width is conservative."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 50)[:, None]
    for _ in range(40):
        centres, weights = rng.random((5, 1)), rng.normal(size=5)
        X = rng.random((12, 1))
        noise = 0.01 + 0.1 * X[:, 0]
        of = oracles.squared_exponential(np.concatenate([centres, X, grid]), 0.3)
        norm = math.sqrt(weights @ of[:5, :5] @ weights)
        f = of[:, :5] @ weights
        y = f[5:17] + np.sqrt(noise) * rng.normal(size=12)
        inner = np.linalg.inv(of[5:17, 5:17] + np.diag(noise))
        mean = of[17:, 5:17] @ inner @ y
        variance = 1 - np.einsum("ij,jk,ik->i", of[17:, 5:17], inner, of[17:, 5:17])
        beta = heteroscedastic_beta(gain(of[5:17, 5:17], tuple(range(12)), noise), norm, 0.1)
        assert (
            np.abs(f[17:] - mean) <= np.sqrt(beta.item() * np.maximum(variance, 0)) + 1e-9
        ).all()


@pytest.mark.parametrize("unequal", [False, True])
def test_greedy_choice_brackets_the_best_gain(unequal: bool) -> None:
    matrix = covariance()
    noise = np.linspace(0.05, 0.5, 6) if unequal else np.full(6, 0.1)
    given = torch.from_numpy(noise) if unequal else 0.1
    gains = information_gain(matrix, given, 4).tolist()
    assert gains[0] == 0.0
    assert gains[1] == pytest.approx(0.5 * math.log(1 + 1 / noise[0]))
    for t in range(1, 5):
        choices = itertools.combinations_with_replacement(range(6), t)
        best = max(gain(matrix.numpy(), rows, noise) for rows in choices)
        assert gains[t] <= best + 1e-12
        assert best <= gains[t] / (1 - 1 / math.e)


def test_a_domain_of_one_point_is_read_again_and_again() -> None:
    gains = information_gain(torch.tensor([[2.0]]).double(), 0.5, 3)
    expected = [0.5 * math.log(1 + 4 * t) for t in range(4)]
    torch.testing.assert_close(gains, torch.tensor(expected).double())


def test_the_gain_of_a_batch_equals_the_loop() -> None:
    batch = torch.stack([covariance(seed=seed) for seed in range(3)])
    noise = torch.rand(3, 6, dtype=torch.double) + 0.1
    together = information_gain(batch, noise, 5)
    assert together.shape == (3, 6)
    for index in range(3):
        alone = information_gain(batch[index], noise[index], 5)
        torch.testing.assert_close(together[index], alone)


def test_wrong_arguments_are_named() -> None:
    for call, message in (
        (lambda: learnt_context_beta(0, 2, **SLOPES), "`t` to be at least 1. Got 0"),
        (lambda: random_exploration_beta(1, 2, **SLOPES), "`t` to be at least 2. Got 1"),
        (
            lambda: random_exploration_beta(4, 1, 1.0, slope_factor=0.01, slope_scale=1.0),
            r"`slope_factor` > delta / \(4 d\) = 0.025. Got slope_factor=0.01",
        ),
        (lambda: heteroscedastic_beta(-1.0, 1.0), "`information` to be finite and >= 0"),
        (lambda: heteroscedastic_beta(1.0, 1.0, delta=2.0), r"`delta` in \(0, 1\)\. Got delta=2"),
        (lambda: rkhs_beta(1.0, -0.1, 1.0), "`noise_variance` to be finite and >= 0"),
        (lambda: information_gain(covariance(), 0.0, 1), "`noise_variance` to be finite and > 0"),
        (lambda: information_gain(covariance(), 0.1, -1), "`num_observations` to be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for name in SLOPES:
        for bad in (0.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"Expected `{name}` to be finite and > 0. Got"):
                learnt_context_beta(3, 2, **{**SLOPES, name: bad})
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x N x N`"):
        information_gain(torch.ones(2, 3), 0.1, 1)
    with pytest.raises(BotorchTensorDimensionError, match="broadcast to `batch_shape x N`"):
        information_gain(covariance(), torch.ones(5), 1)
    with pytest.raises(InputDataError, match="Expected a finite `covariance`"):
        information_gain(covariance() * torch.nan, 0.1, 1)
