r"""Problems on a finite domain, and sampled functions."""

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.seeding import generators
from botorch_risk.test_functions import (
    FiniteDomainProblem,
    GaussianProcessSample,
    PosteriorMeanFunctions,
    unit_grid,
)

DOMAIN = unit_grid(4)
VALUES = torch.arange(16, dtype=torch.double).square()
NAN = torch.nan


def test_values_are_those_told():
    problem = FiniteDomainProblem(DOMAIN, VALUES)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(problem.evaluate_true(DOMAIN[order]), VALUES[order])
    assert torch.equal(problem(DOMAIN[order].reshape(2, 8, 2)), VALUES[order].reshape(2, 8))
    assert problem.maximum == 225
    assert problem.bounds.tolist() == [[0, 0], [1, 1]]


def test_each_replicate_may_have_its_own_function():
    problem = FiniteDomainProblem(DOMAIN, torch.stack([VALUES, -VALUES]))
    X = DOMAIN[torch.tensor([[3, 1], [2, 0]])]
    assert problem.evaluate_true(X).tolist() == [[9, 1], [-4, 0]]
    assert problem.evaluate_true(X[:, 0]).tolist() == [9, -4]
    assert problem.maximum.tolist() == [225, 0]
    with pytest.raises(BotorchTensorDimensionError, match=r"shape `2 x ... x d`"):
        problem.evaluate_true(X[:1])


def test_rows_of_nan_ask_for_nothing():
    problem = FiniteDomainProblem(DOMAIN, VALUES, noise=1.0)
    X = torch.stack([DOMAIN[5], torch.full((2,), NAN, dtype=torch.double)]).expand(3, 2, 2)
    Y = problem.sample_repeats(X, 4, generators([0, 1, 2], "noise"))
    assert Y[:, 0].isfinite().all()
    assert Y[:, 1].isnan().all()
    alone = problem.sample_repeats(X[:, :1], 4, generators([0, 1, 2], "noise"))
    assert torch.equal(Y[:, :1], alone)


def test_noise_has_the_variance_of_its_level():
    problem = FiniteDomainProblem(DOMAIN, VALUES, noise=(1e-4, 4.0))
    X = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0], [NAN, NAN, NAN]], dtype=torch.double)
    Y = problem.sample_repeats(X, 4000, torch.Generator().manual_seed(0))
    assert Y[:2].mean(dim=-1).tolist() == pytest.approx([9, 9], abs=0.1)
    assert Y[:2].var(dim=-1).tolist() == pytest.approx([1e-4, 4.0], rel=0.1)
    assert problem.dim == 3
    assert problem.bounds[:, 2].tolist() == [0, 1]
    assert torch.equal(
        problem.evaluate_true(X[:, :2]).nan_to_num(), torch.tensor([9.0, 9, 0]).double()
    )


@pytest.mark.parametrize(
    "X", [[0.5, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.5], [0.0, NAN, 0.0], [0.0, 0.0, NAN]]
)
def test_refuses_what_is_not_in_the_domain(X):
    problem = FiniteDomainProblem(DOMAIN, VALUES, noise=(0.1, 1.0))
    point = torch.tensor([X], dtype=torch.double)
    with pytest.raises(InputDataError, match="Expected points of the domain"):
        problem.sample_repeats(point, 1, torch.Generator())


def test_errors():
    with pytest.raises(BotorchTensorDimensionError, match=r"shape `\|D\| x d`"):
        FiniteDomainProblem(DOMAIN, VALUES[:3])
    with pytest.raises(InputDataError, match="finite `domain` and `values`"):
        FiniteDomainProblem(DOMAIN, VALUES.where(VALUES > 0, NAN))
    with pytest.raises(InputDataError, match=r"distinct points\. Got 2 among 3"):
        FiniteDomainProblem(DOMAIN[[0, 1, 0]], VALUES[:3])
    for noise in (-1.0, (0.1, float("inf")), ()):
        with pytest.raises(ValueError, match="finite noise variances >= 0"):
            FiniteDomainProblem(DOMAIN, VALUES, noise)
    with pytest.raises(BotorchTensorDimensionError, match=r"`... x 2` or `... x 2`"):
        FiniteDomainProblem(DOMAIN, VALUES).evaluate_true(torch.zeros(1, 3))
    with pytest.raises(BotorchTensorDimensionError, match=r"shape `... x 2`\. Got X.shape"):
        FiniteDomainProblem(DOMAIN, VALUES)(torch.zeros(1, 3, dtype=torch.double))


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


@pytest.mark.slow
def test_values_at_the_centers_are_draws_of_the_process():
    functions = PosteriorMeanFunctions(range(300), num_centers=5, lengthscale=0.5)
    values = functions(functions.centers)
    assert values.square().mean().item() == pytest.approx(1.0, abs=0.1)
    nearby = torch.exp(-2 * (functions.centers[:, 0] - functions.centers[:, 1]).square().sum(-1))
    assert (values[:, 0] * values[:, 1] - nearby).mean().item() == pytest.approx(0.0, abs=0.25)


@pytest.mark.slow
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


def test_errors_of_samples():
    with pytest.raises(ValueError, match=r"`side` to be at least 2\. Got 1"):
        GaussianProcessSample(0, side=1)
    with pytest.raises(BotorchTensorDimensionError, match="shape `1 x m x 2`"):
        PosteriorMeanFunctions(0, num_centers=3)(torch.zeros(2, 1, 2))


def test_numbers_of_numpy_are_numbers():
    noise = FiniteDomainProblem(DOMAIN, VALUES, np.float32(0.25)).noise_variances
    assert noise == FiniteDomainProblem(DOMAIN, VALUES, torch.tensor([0.25])).noise_variances
    one, other = (GaussianProcessSample(seed, side=3).values for seed in (3, np.int64(3)))
    assert torch.equal(one, other)
