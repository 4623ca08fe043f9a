r"""The marginal likelihood and its gradient, for rows of parameters."""

import math

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.priors import UniformPrior
from scipy.optimize import check_grad
from torch import Tensor

from botorch_risk.engine import MarginalLikelihoodObjective, NotInClosedFormError
from botorch_risk.engine.fit.marginal_likelihood import (
    BestConstant,
    Hyperparameters,
    log_marginal_likelihood,
)
from botorch_risk.engine.fit.parameters import ExactGPParts, Hyperparameter
from botorch_risk.engine.fit.starts import ROUGHER, draws_of_restarts, make_starts

# The correlations in terms of the scaled distance, for a dense oracle.
CORRELATIONS = {
    "rbf": lambda r: (-0.5 * r**2).exp(),
    "matern12": lambda r: (-r).exp(),
    "matern32": lambda r: (1 + 3**0.5 * r) * (-(3**0.5) * r).exp(),
    "matern52": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * (-(5**0.5) * r).exp(),
}

SMOOTHNESS = {"rbf": math.inf, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}

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


def objective(n: int = 7) -> MarginalLikelihoodObjective:
    X = torch.rand(3, n, 2, dtype=torch.float64)
    model = SingleTaskGP(X, (4 * X).sin().sum(-1, keepdim=True))
    return MarginalLikelihoodObjective.of(model.train())


def test_gradient_equals_differences() -> None:
    loss = objective()
    theta = make_starts(loss, torch.Size([3]), ROUGHER).theta

    for row in range(len(theta)):

        def value(x: np.ndarray, row: int = row) -> float:
            return loss(x[None], np.array([row]))[0][0]

        def gradient(x: np.ndarray, row: int = row) -> np.ndarray:
            return loss(x[None], np.array([row]))[1][0]

        assert check_grad(value, gradient, theta[row]) < 1e-6


def test_any_selection_of_rows_in_any_chunks_gives_the_same() -> None:
    loss = objective()
    shape = torch.Size([3])
    theta = make_starts(loss, shape, ROUGHER, draws_of_restarts(shape, 1, range(3))).theta
    assert theta.shape == (9, 3)  # the constant is no parameter
    value, gradient = loss(theta, np.arange(9))
    some = np.array([1, 4, 5, 8])
    loss._chunk, loss._selected = 3, None
    np.testing.assert_allclose(loss(theta[some], some)[0], value[some], atol=1e-13)
    np.testing.assert_allclose(loss(theta[some], some)[1], gradient[some], atol=1e-12)


CONSTRAINTS = {
    "interval": Interval(0.5, 2.0),
    "positive": Positive(),
    "greater": GreaterThan(0.1),
    "closed": GreaterThan(0.1, transform=None),
    "less": LessThan(3.0),
}


def parts(**options: object) -> ExactGPParts:
    X = torch.rand(2, 6, 3, dtype=torch.float64)
    model = SingleTaskGP(X, X.sum(-1, keepdim=True).sin(), **options)
    return ExactGPParts.read(model.train())


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read_again_at_the_bounds_too(name: str, dtype: torch.dtype) -> None:
    constraint = CONSTRAINTS[name].to(dtype)
    raw = torch.nn.Parameter(torch.ones(2, 1, 3, dtype=dtype))
    parameter = Hyperparameter("lengthscale", raw, constraint, torch.Size([2]))
    lower, upper = parameter.bounds()
    assert (lower >= constraint.lower_bound.item()).all()
    assert (upper <= constraint.upper_bound.item()).all()
    middle = np.minimum(np.sqrt(lower * upper), 1.7)
    for values in (lower, np.minimum(upper, 1e4), middle):
        parameter.write(values, keep=np.zeros(2, dtype=bool))
        again = parameter.rows(parameter.natural.detach().numpy())
        assert raw.isfinite().all()
        eps = torch.finfo(dtype).eps
        np.testing.assert_allclose(again, values, rtol=max(1e-9, 30 * eps), atol=4 * eps)


def test_kept_replicates_are_not_written_bit_for_bit() -> None:
    raw = torch.nn.Parameter(torch.randn(2, 1, 3))
    before = raw.detach().clone()
    parameter = Hyperparameter("lengthscale", raw, Positive(), torch.Size([2]))
    parameter.write(np.ones((2, 3)), keep=np.array([True, False]))
    assert torch.equal(raw[0], before[0]) and not torch.equal(raw[1], before[1])


def test_parameters_without_gradients_have_no_room() -> None:
    raw = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    parameter = Hyperparameter("outputscale", raw, Positive(), torch.Size([2]))
    lower, upper = parameter.bounds()
    np.testing.assert_array_equal(lower, upper)
    np.testing.assert_allclose(lower, np.log(2.0))


def test_priors_are_found() -> None:
    found = {one.name: len(one.priors) for one in parts().hyperparameters}
    assert found == {"lengthscale": 1, "noise": 1, "constant": 0}


def test_shapes_of_the_data() -> None:
    read = parts(covar_module=RBFKernel(batch_shape=torch.Size([2]), active_dims=(0, 2)))
    assert read.X.shape == (2, 6, 2) and read.Y.shape == (2, 6)
    assert read.fixed_noise is None and read.batch_shape == (2,)


def test_hyperparameters_that_replicates_share_are_not_known() -> None:
    with pytest.raises(NotInClosedFormError, match="a lengthscale that is shared by replicates"):
        parts(covar_module=RBFKernel())
    with pytest.raises(NotInClosedFormError, match="a constant that is shared by replicates"):
        parts(mean_module=ConstantMean())


def test_a_constraint_without_an_inverse_is_not_known() -> None:
    constraint = GreaterThan(0.1)
    constraint._inv_transform = None
    kernel = RBFKernel(batch_shape=torch.Size([2]))
    kernel.register_constraint("raw_lengthscale", constraint)
    with pytest.raises(NotInClosedFormError, match="a constraint on the lengthscale"):
        parts(covar_module=kernel)


def test_additional_noise_is_not_known() -> None:
    likelihood = FixedNoiseGaussianLikelihood(
        torch.full((2, 6), 0.1).double(), learn_additional_noise=True, batch_shape=torch.Size([2])
    )
    with pytest.raises(NotInClosedFormError, match="additional noise"):
        parts(likelihood=likelihood)


def test_a_prior_of_bounded_support_is_not_known() -> None:
    kernel = RBFKernel(batch_shape=torch.Size([2]), lengthscale_prior=UniformPrior(0.1, 2.0))
    with pytest.raises(NotInClosedFormError, match=r"a prior .*lengthscale_prior of bounded suppo"):
        parts(covar_module=kernel)
