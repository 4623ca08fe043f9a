r"""Widths against what their theorems promise, and the information that they rest on."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from scipy.stats import norm

from botorch_risk.acquisition import (
    bayesian_beta,
    continuous_domain_beta,
    finite_domain_beta,
    heteroscedastic_beta,
    information_gain,
    rkhs_beta,
)
from tests import oracles

ROUNDS = (1, 2, 10, 1000)
UNIT = {"side_length": 1.0, "slope_factor": 1.0, "slope_scale": 1.0}


@pytest.mark.parametrize("t", ROUNDS)
@pytest.mark.parametrize("num_decisions", [1, 20, 10**6])
def test_the_excess_over_all_decisions_is_at_most_one_over_t_squared(
    t: int, num_decisions: int
) -> None:
    r"""Lemma 6: `num_decisions * E (f - ucb)_+`, in closed form for a standard normal f."""
    width = math.sqrt(finite_domain_beta(t, num_decisions))
    excess = norm.pdf(width) - width * norm.sf(width)
    assert num_decisions * excess <= 1 / t**2
    bound = num_decisions * math.exp(-(width**2) / 2) / math.sqrt(2 * math.pi)
    assert bound <= 1 / t**2 + 1e-12
    if width > 0:
        assert bound == pytest.approx(1 / t**2)


@pytest.mark.parametrize("t", ROUNDS[1:])
def test_the_continuous_domain_is_a_grid_of_theorem_1(t: int) -> None:
    constants = {"side_length": 3.0, "slope_factor": 2.0, "slope_scale": 0.7}
    tau = t**2 * 4 * 2.0 * 0.7 * 3.0 * math.sqrt(math.pi) / 2
    printed = 2 * np.log(t**2 / np.sqrt(2 * np.pi)) + 2 * 4 * np.log(tau)
    assert continuous_domain_beta(t, 4, **constants) == pytest.approx(printed)
    many = continuous_domain_beta(t, 300, **constants)  # more grid points than a float holds
    assert math.isfinite(many)


def test_a_grid_has_at_least_one_point_and_a_width_is_no_less_than_zero() -> None:
    smooth = {**UNIT, "slope_scale": 1e-9}
    assert continuous_domain_beta(5, 3, **smooth) == finite_domain_beta(5, 1)
    assert finite_domain_beta(1, 1) == 0.0


def test_bad_arguments() -> None:
    for call in (
        lambda: finite_domain_beta(0, 5),
        lambda: continuous_domain_beta(0, 2, **UNIT),
    ):
        with pytest.raises(ValueError, match=r"Expected `t` to be at least 1. Got 0"):
            call()
    with pytest.raises(ValueError, match=r"Expected `num_decisions` to be at least 1. Got 0"):
        finite_domain_beta(3, 0)
    for name in UNIT:
        for bad in (0.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"Expected `{name}` to be finite and > 0. Got"):
                continuous_domain_beta(3, 2, **{**UNIT, name: bad})


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


def test_a_domain_of_one_point_is_observed_again_and_again() -> None:
    gains = information_gain(torch.tensor([[2.0]]).double(), 0.5, 3)
    expected = [0.5 * math.log(1 + 4 * t) for t in range(4)]
    torch.testing.assert_close(gains, torch.tensor(expected).double())


def test_gain_of_a_batch_equals_the_loop() -> None:
    batch = torch.stack([covariance(seed=seed) for seed in range(3)])
    together = information_gain(batch, 0.1, 5)
    assert together.shape == (3, 6)
    for index in range(3):
        torch.testing.assert_close(together[index], information_gain(batch[index], 0.1, 5))
    twice = information_gain(batch.expand(2, *batch.shape), 0.1, 5)
    torch.testing.assert_close(twice, together.expand(2, *together.shape))


def test_nothing_is_gained_without_observations() -> None:
    assert information_gain(covariance(), 0.1, 0).tolist() == [0.0]


def test_bad_input() -> None:
    for delta in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)\. Got delta="):
            bayesian_beta(1, delta)
    with pytest.raises(ValueError, match=r"`t` to be at least 1\. Got 0"):
        bayesian_beta(0)
    options = {"information_gain": 1.0, "noise_variance": 0.1, "rkhs_norm": 1.0}
    for name in options:
        with pytest.raises(ValueError, match=f"`{name}` to be finite and >= 0"):
            rkhs_beta(**{**options, name: -1.0}, delta=0.1)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x N x N`"):
        information_gain(torch.ones(2, 3), 0.1, 1)
    with pytest.raises(InputDataError, match="Expected a finite `covariance`"):
        information_gain(covariance() * torch.nan, 0.1, 1)
    for noise, count, message in (
        (0.0, 1, "`noise_variance` to be finite and > 0"),
        (0.1, -1, "`num_observations` to be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            information_gain(covariance(), noise, count)


def test_heteroscedastic_widths_of_a_batch_are_determinants() -> None:
    r"""Eq. (8) of [Makarova2021rahbo]_, with another noise at each point of each replicate."""
    X = torch.rand(2, 6, 1, dtype=torch.double)
    noise = 0.01 + torch.rand(2, 6, 1, dtype=torch.double)
    Y = (X - X.mean(dim=-2, keepdim=True)) / X.std(dim=-2, keepdim=True)
    model = SingleTaskGP(X, Y, noise, outcome_transform=None)
    found = heteroscedastic_beta(model, delta=0.2, rkhs_norm=1.5)
    with torch.no_grad():
        covariance = model.covar_module(X).to_dense()
    diagonal = torch.diag_embed(noise.squeeze(-1))
    ratio = torch.logdet(diagonal + covariance) - torch.logdet(diagonal)
    expected = ((ratio - 2 * math.log(0.2)).sqrt() + 1.5).square()
    torch.testing.assert_close(found.double(), expected)
    with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)\. Got delta=2"):
        heteroscedastic_beta(model, delta=2.0, rkhs_norm=1.0)
    with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)\. Got delta=0"):
        rkhs_beta(1.0, noise_variance=0.25, rkhs_norm=2.0, delta=0.0)
