r"""Samples have the distribution of the process, and maxima are the largest values there are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError

from botorch_risk.test_functions import GaussianProcessSample, PosteriorMeanFunctions, unit_grid


def squared_exponential(a, b, lengthscale=0.1):
    squares = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * squares / lengthscale**2)


def test_samples_have_the_covariance_of_the_kernel():
    problem = GaussianProcessSample(range(4000), side=4, lengthscale=0.4)
    empirical = problem.values.T @ problem.values / 4000
    expected = squared_exponential(problem.domain.numpy(), problem.domain.numpy(), 0.4)
    assert np.abs(empirical.numpy() - expected).max() < 0.1  # 4.5 standard errors
    assert problem.values.mean(dim=0).abs().max() < 0.07


def test_a_sample_depends_on_its_seed_alone():
    many = GaussianProcessSample([7, 3])
    assert many.values.shape == (2, 2500)
    assert torch.equal(GaussianProcessSample(3).values, many.values[1])
    assert not torch.equal(many.values[0], many.values[1])
    functions = PosteriorMeanFunctions([7, 3], num_centers=30)
    alone = PosteriorMeanFunctions(3, num_centers=30)
    assert torch.equal(functions.centers[1:], alone.centers)
    torch.testing.assert_close(functions.weights[1:], alone.weights)


def test_posterior_means_are_those_of_a_refit():
    functions = PosteriorMeanFunctions([5], num_centers=40)
    centers = functions.centers[0].numpy()
    X = np.random.default_rng(0).random((20, 2))
    # The values at the centers, of which the function is the posterior mean.
    gram = squared_exponential(centers, centers) + 1e-6 * np.eye(40)
    values = gram @ functions.weights[0].numpy()
    expected = squared_exponential(X, centers) @ np.linalg.solve(gram, values)
    found = functions(torch.from_numpy(X).unsqueeze(0))[0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_values_at_the_centers_are_draws_of_the_process():
    functions = PosteriorMeanFunctions(range(300), num_centers=5, lengthscale=0.5)
    values = functions(functions.centers)
    assert values.square().mean().item() == pytest.approx(1.0, abs=0.1)
    nearby = torch.exp(-2 * (functions.centers[:, 0] - functions.centers[:, 1]).square().sum(-1))
    assert (values[:, 0] * values[:, 1] - nearby).mean().item() == pytest.approx(0.0, abs=0.25)


def test_nothing_is_higher_than_the_maximum():
    functions = PosteriorMeanFunctions(range(6))
    at_best = functions(functions.maximizer.unsqueeze(-2)).squeeze(-1)
    torch.testing.assert_close(at_best, functions.maximum, rtol=1e-9, atol=1e-9)
    fine = functions(unit_grid(121).expand(6, -1, -1))
    assert (fine.amax(dim=-1) <= functions.maximum + 1e-9).all()
    assert (fine.amax(dim=-1) > functions.maximum - 2e-2).all()
    X = functions.maximizer.clone().requires_grad_()
    functions(X.unsqueeze(-2)).sum().backward()
    inside = ((X > 0) & (X < 1)).all(dim=-1)
    assert X.grad is not None
    assert X.grad[inside].abs().max() < 1e-5
    assert inside.any()


def test_grid_values_are_those_of_the_function():
    functions = PosteriorMeanFunctions([0, 1])
    problem = functions.on_grid(side=11)
    X = problem.domain.expand(2, -1, -1)
    torch.testing.assert_close(problem.evaluate_true(X), functions(X), rtol=0, atol=1e-9)
    assert problem.noise_variances == (1e-6,)
    assert (problem.maximum <= functions.maximum).all()


def test_errors():
    with pytest.raises(ValueError, match=r"`side` to be at least 2\. Got 1"):
        GaussianProcessSample(0, side=1)
    with pytest.raises(BotorchTensorDimensionError, match="shape `1 x m x 2`"):
        PosteriorMeanFunctions(0, num_centers=3)(torch.zeros(2, 1, 2))
