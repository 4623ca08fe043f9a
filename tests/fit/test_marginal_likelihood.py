from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from botorch_risk.fit.objective import (
    BestConstant,
    Hyperparameters,
    log_marginal_likelihood,
)

# The correlations in terms of the scaled distance, for a dense oracle.
CORRELATIONS = {
    "rbf": lambda r: (-0.5 * r**2).exp(),
    "matern12": lambda r: (-r).exp(),
    "matern32": lambda r: (1 + 3**0.5 * r) * (-(3**0.5) * r).exp(),
    "matern52": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * (-(5**0.5) * r).exp(),
}
SMOOTHNESS = {
    "rbf": math.inf,
    "matern12": 0.5,
    "matern32": 1.5,
    "matern52": 2.5,
}
profiles = pytest.mark.parametrize("name", SMOOTHNESS)


def draw(
    rows: int = 3, n: int = 9, d: int = 2, ard: bool = True, fixed: bool = False
) -> tuple[Tensor, Tensor, Hyperparameters]:
    X, Y = torch.rand(rows, n, d).double(), torch.randn(rows, n).double()
    hyperparameters = Hyperparameters(
        lengthscale=0.2 + torch.rand(rows, d if ard else 1).double(),
        noise=0.05 + torch.rand(rows, n if fixed else 1).double(),
        outputscale=0.5 + torch.rand(rows).double(),
        constant=torch.randn(rows).double(),
    )
    return X, Y, hyperparameters


def dense(name: str, X: Tensor, Y: Tensor, hyperparameters: Hyperparameters) -> Tensor:
    r"""Row by row through all differences and torch's multivariate normal."""
    values = []
    for x, y, lengthscale, noise, outputscale, constant in zip(X, Y, *hyperparameters, strict=True):
        squares = ((x.unsqueeze(0) - x.unsqueeze(1)) / lengthscale).square().sum(-1)
        apart = squares > 0
        distance = torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)
        covariance = outputscale * CORRELATIONS[name](distance)
        covariance = covariance + noise * torch.eye(len(y), dtype=y.dtype)
        normal = torch.distributions.MultivariateNormal(constant.expand(len(y)), covariance)
        values.append(normal.log_prob(y))
    return torch.stack(values)


@profiles
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("fixed", [True, False])
def test_value_and_gradient_equal_dense_autograd(name: str, ard: bool, fixed: bool) -> None:
    X, Y, hyperparameters = draw(ard=ard, fixed=fixed)
    found = log_marginal_likelihood(X, Y, hyperparameters, SMOOTHNESS[name])
    leaves = Hyperparameters(*(tensor.clone().requires_grad_() for tensor in hyperparameters))
    expected = dense(name, X, Y, leaves)
    torch.testing.assert_close(found.value, expected.detach(), rtol=0, atol=1e-10)
    for gradient, want in zip(
        found.gradient, torch.autograd.grad(expected.sum(), leaves), strict=True
    ):
        torch.testing.assert_close(gradient, want, rtol=1e-8, atol=1e-8)


@profiles
def test_points_that_were_observed_twice(name: str) -> None:
    X, Y, hyperparameters = draw()
    X[:, 1] = X[:, 0]
    found = log_marginal_likelihood(X, Y, hyperparameters, SMOOTHNESS[name])
    expected = dense(name, X, Y, hyperparameters)
    torch.testing.assert_close(found.value, expected, rtol=0, atol=1e-10)
    assert all(gradient.isfinite().all() for gradient in found.gradient)


@profiles
@pytest.mark.parametrize("fixed", [True, False])
def test_a_mask_is_the_same_as_fewer_points(name: str, fixed: bool) -> None:
    X, Y, hyperparameters = draw(fixed=fixed)
    observed = torch.rand(Y.shape) > 0.4
    found = log_marginal_likelihood(X, Y, hyperparameters, SMOOTHNESS[name], observed)
    for row, seen in enumerate(observed):
        one = Hyperparameters(*(tensor[row : row + 1] for tensor in hyperparameters))
        if fixed:
            one = one._replace(noise=one.noise[:, seen])
        x, y = X[row : row + 1, seen], Y[row : row + 1, seen]
        alone = log_marginal_likelihood(x, y, one, SMOOTHNESS[name])
        torch.testing.assert_close(alone.value[0], found.value[row], rtol=0, atol=1e-12)
        gradient = found.gradient._replace(
            noise=found.gradient.noise[:, seen] if fixed else found.gradient.noise
        )
        for mine, theirs in zip(gradient, alone.gradient, strict=True):
            torch.testing.assert_close(mine[row], theirs[0], rtol=1e-10, atol=1e-12)


def log_posterior(
    X: Tensor, Y: Tensor, theta: Hyperparameters, sought: BestConstant, seen: Tensor
) -> Tensor:
    r"""Likelihood times density for each constant of a row."""
    values = [
        dense("rbf", x[s].unsqueeze(0), y[s].unsqueeze(0), Hyperparameters(*(t[None] for t in one)))
        for x, y, s, *one in zip(X, Y, seen, *theta, strict=True)
    ]
    density = -0.5 * sought.precision * (theta.constant - sought.location).square()
    return torch.cat(values) + density


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("precision", [0.0, 3.0])
def test_the_best_constant_is_the_best_one_and_its_gradient_that_of_the_maximum(
    masked: bool, bounded: bool, precision: float
) -> None:
    X, Y, theta = draw()
    Y = Y + 2.0
    seen = torch.rand(Y.shape) > 0.3 if masked else torch.ones_like(Y, dtype=torch.bool)
    upper = torch.tensor([0.5, 1.0, 9.0] if bounded else [math.inf] * 3).double()
    location, precisions = torch.tensor([1.0, 0.0, -4.0]).double(), torch.full((3,), precision)
    sought = BestConstant(-upper, upper, location, precisions.double())
    found = log_marginal_likelihood(
        X, Y, theta, observed=seen if masked else None, best_constant=sought
    )

    def best(other: Hyperparameters) -> tuple[Tensor, Tensor]:
        lowest, highest = (end.clamp(-9, 9) for end in (sought.lower, sought.upper))
        middle, half = (lowest + highest) / 2, (highest - lowest) / 2
        # A parabola in the constant: three points are all of it.
        a, b, c = (
            log_posterior(X, Y, other._replace(constant=end), sought, seen)
            for end in (lowest, middle, highest)
        )
        vertex = middle + half * (a - c) / (2 * (a - 2 * b + c))
        constant = vertex.clamp(lowest, highest)
        return constant, log_posterior(X, Y, other._replace(constant=constant), sought, seen)

    leaves = Hyperparameters(*(tensor.clone().requires_grad_() for tensor in theta))
    constant, maximum = best(leaves)
    torch.testing.assert_close(found.constant, constant.detach())
    density = -0.5 * sought.precision * (found.constant - location).square()
    torch.testing.assert_close(found.value + density, maximum.detach())
    gradients = torch.autograd.grad(maximum.sum(), leaves[:3])
    for mine, theirs in zip(found.gradient[:3], gradients, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_singular_matrix_fails_its_row_alone() -> None:
    X, Y, theta = draw()
    expected = log_marginal_likelihood(X, Y, theta)
    theta.noise[1], theta.outputscale[1] = 0.0, 0.0
    found = log_marginal_likelihood(X, Y, theta)
    assert found.value.isnan().tolist() == [False, True, False]
    torch.testing.assert_close(found.value[[0, 2]], expected.value[[0, 2]])


def test_a_row_whose_covariance_is_not_positive_definite_is_nan_and_alone() -> None:
    X, Y, hyperparameters = draw()
    expected = log_marginal_likelihood(X, Y, hyperparameters)
    hyperparameters.noise[1] = -5.0
    found = log_marginal_likelihood(X, Y, hyperparameters)
    assert found.value.isnan().tolist() == [False, True, False]
    torch.testing.assert_close(found.value[[0, 2]], expected.value[[0, 2]])


def test_float32_and_device(device: torch.device) -> None:
    X, Y, hyperparameters = draw()
    expected = log_marginal_likelihood(X, Y, hyperparameters)
    single = Hyperparameters(*(tensor.float().to(device) for tensor in hyperparameters))
    found = log_marginal_likelihood(X.float().to(device), Y.float().to(device), single)
    assert found.value.dtype == torch.float32 and found.value.device.type == device.type
    torch.testing.assert_close(found.value.cpu().double(), expected.value, rtol=1e-4, atol=1e-4)
