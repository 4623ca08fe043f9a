r"""Processes and their covariances in the units of the outcome, and bounds of several at once."""

import math
import pickle

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.settings import min_variance
from torch import Tensor

from botorch_risk.engine import Belief, DomainPosterior
from botorch_risk.engine.posterior.bounds import Bounds
from tests.engine.posterior.domains import build, dense, domain, truth


@dense
def test_transforms_and_inferred_noise(dense: bool) -> None:
    D = 10 * domain() - 3
    model = SingleTaskGP(
        D[:6], truth(D[:6]), outcome_transform=Standardize(1), input_transform=Normalize(2)
    )
    flipped = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.float64), offset=1.0)
    for transform in (None, flipped):
        posterior = DomainPosterior(model, D, dense=dense, posterior_transform=transform)
        with torch.no_grad():
            expected = model.posterior(D, posterior_transform=transform)
        torch.testing.assert_close(posterior.mean, expected.mean.squeeze(-1))
        torch.testing.assert_close(
            posterior.covariance, expected.distribution.covariance_matrix, rtol=1e-6, atol=1e-7
        )
        scale = model.outcome_transform.stdvs.item() * (1 if transform is None else 2)
        noise = model.likelihood.noise.item() * scale**2
        torch.testing.assert_close(posterior.inferred_noise(), torch.full((1, 40), noise).double())
        low, high = posterior.outcome_range
        y = truth(D[:6]) if transform is None else 1 - 2 * truth(D[:6])
        torch.testing.assert_close(torch.stack([low, high]), torch.stack([y.min(), y.max()]))
        given = posterior.copy()
        posterior.observe(20, 1.0)
        given.observe(
            20, 1.0, model.likelihood.noise.item() * model.outcome_transform.stdvs.item() ** 2
        )
        torch.testing.assert_close(posterior.variance, given.variance)


def test_off_the_domain_with_gradients() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:4], truth(D[:4]), 1e-3), D)
    posterior.observe(9, 2.0, 1e-3)
    columns = posterior.points(torch.tensor([[0, 9, 20]]))

    def moments(X: Tensor) -> tuple[Tensor, ...]:
        at = posterior.at(X)
        return at.mean, at.variance, posterior.cross_covariance(at, columns)

    torch.testing.assert_close(moments(D)[0][0], posterior.mean)
    torch.testing.assert_close(moments(D)[1][0], posterior.variance)
    torch.testing.assert_close(moments(D)[2][0], posterior.covariance[:, [0, 9, 20]])
    X = torch.rand(3, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(moments, X)
    assert not posterior.at(X.detach()).mean.requires_grad


def test_the_running_covariance_is_rebased_when_rounding_has_grown() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3), D)
    exact = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3), D, dense=False)
    posterior._state.covariance.matrix.add_(1e-9)  # far more than rounding
    for row in (5, 11):
        posterior.observe(row, 1.0, 1e-3)
        exact.observe(row, 1.0, 1e-3)
    torch.testing.assert_close(posterior.covariance, exact.covariance, rtol=0, atol=1e-14)
    matrix = posterior._state.covariance.matrix
    posterior.observe(3, 1.0, 1e-3)
    assert posterior._state.covariance.matrix.data_ptr() == matrix.data_ptr()  # updated in place


def test_rows_are_up_to_date_whatever_the_order_they_are_read_in() -> None:
    D = domain()
    X = torch.stack([D[:2], D[5:7]])
    model = build(X, truth(X), 1e-3, RBFKernel(batch_shape=torch.Size([2])))
    posterior, exact = DomainPosterior(model, D), DomainPosterior(model, D, dense=False)
    for row in (5, 11):  # the second observation finds rows that nobody has read
        posterior.observe(row, 1.0, 1e-3)
        exact.observe(row, 1.0, 1e-3)
        blocks, expected = posterior.covariance_between(), exact.covariance
        for r, start, stop in ((1, 10, 20), (0, 3, 7), (1, 0, 12), (0, 5, 30)):
            block = blocks(slice(r, r + 1), slice(start, stop), slice(None))[0]
            torch.testing.assert_close(block, expected[r, start:stop], rtol=0, atol=1e-13)
    trial = posterior.copy()
    trial.observe(2, 1.0, 1e-3)
    torch.testing.assert_close(posterior.covariance, exact.covariance, rtol=0, atol=1e-13)
    exact.observe(2, 1.0, 1e-3)
    torch.testing.assert_close(trial.covariance, exact.covariance, rtol=0, atol=1e-13)


KERNELS = {
    "matern and rbf": lambda shape: (
        ScaleKernel(MaternKernel(2.5, ard_num_dims=2, batch_shape=shape), batch_shape=shape),
        RBFKernel(ard_num_dims=2, batch_shape=shape),
    ),
    "one without formulas": lambda shape: (
        RBFKernel(ard_num_dims=2, batch_shape=shape),
        PeriodicKernel(ard_num_dims=2, batch_shape=shape),
    ),
}

MINUS = ScalarizedPosteriorTransform(torch.tensor([-1.5], dtype=torch.double), 0.5)


def predictors(
    kernels: str, shape: torch.Size, dtype: torch.dtype = torch.double, transform: bool = False
) -> list[Belief]:
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(*shape, 9, 2, generator=generator, dtype=torch.double).to(dtype)
    found = []
    for number, kernel in enumerate(KERNELS[kernels](shape)):
        Y = ((3 + number) * X).sin().sum(dim=-1, keepdim=True) + number
        model = SingleTaskGP(
            X,
            Y,
            covar_module=kernel.to(dtype),
            input_transform=Normalize(2, batch_shape=shape) if transform else None,
        )
        found.append(Belief(model, MINUS if number else None))
    return found


def separately(predictors: list[Belief], X: Tensor, widths: list[Tensor]) -> list[Tensor]:
    moments = [predictor(X) for predictor in predictors]
    return [m.mean + w * m.variance.sqrt() for m, w in zip(moments, widths, strict=True)]


def slope(values: Tensor, X: Tensor) -> Tensor:
    return torch.autograd.grad(values.sum(), X, retain_graph=True)[0]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("points", [(), (4,)], ids=["alone", "t-batch"])
@pytest.mark.parametrize("transform", [False, True])
def test_bounds_and_gradients_are_those_of_the_moments(
    kernels: str, shape: tuple[int, ...], points: tuple[int, ...], transform: bool
) -> None:
    each = predictors(kernels, torch.Size(shape), transform=transform)
    bounds = Bounds(each)
    X = torch.rand(*points, *shape, 5, 2, dtype=torch.double, requires_grad=True)
    widths = [torch.tensor(2.0).double(), torch.full((*shape, 1), -0.7).double()]
    expected, found = separately(each, X, widths), bounds(X, widths)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
        weights = torch.rand_like(theirs)
        gradients = (
            torch.autograd.grad((weights * of).sum(), X, retain_graph=True)[0]
            for of in (ours, theirs)
        )
        torch.testing.assert_close(*gradients)


def test_points_are_shared_by_replicates() -> None:
    each = predictors("matern and rbf", torch.Size([3]))
    X = torch.rand(5, 2, dtype=torch.double, requires_grad=True)
    widths = [torch.tensor(1.0).double()] * 2
    found, expected = Bounds(each)(X, widths), separately(each, X, widths)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == (3, 5)
        torch.testing.assert_close(ours, theirs)
        gradients = (
            torch.autograd.grad(of.sum(), X, retain_graph=True)[0] for of in (ours, theirs)
        )
        torch.testing.assert_close(*gradients)


def test_gradients_by_differences() -> None:
    bounds = Bounds(predictors("matern and rbf", torch.Size([2])))
    X = torch.rand(2, 3, 2, dtype=torch.double, requires_grad=True)
    widths = [torch.tensor(1.5).double(), torch.tensor(-1.5).double()]
    assert torch.autograd.gradcheck(lambda X: bounds(X, widths), X)


def test_a_clamped_variance_has_no_slope() -> None:
    each = predictors("matern and rbf", torch.Size([]))
    X = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    widths = [torch.tensor(1.0).double()] * 2
    with min_variance(double_value=10.0):
        found, expected = Bounds(each)(X, widths), separately(each, X, widths)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
        gradients = (
            torch.autograd.grad(of.sum(), X, retain_graph=True)[0] for of in (ours, theirs)
        )
        torch.testing.assert_close(*gradients)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounds_follow_their_models(dtype: torch.dtype) -> None:
    each = predictors("matern and rbf", torch.Size([]), dtype)
    bounds, X = Bounds(each[:1]), torch.rand(4, 2, dtype=dtype)
    widths = [torch.tensor(1.0, dtype=dtype)]
    before = bounds(X, widths)[0]
    each[0].model.covar_module.base_kernel.lengthscale = 0.2
    after = bounds(X, widths)[0]
    assert before.dtype == dtype and not torch.allclose(before, after)
    torch.testing.assert_close(after, separately(each[:1], X, widths)[0], rtol=1e-4, atol=1e-4)
    copied = pickle.loads(pickle.dumps(bounds))
    torch.testing.assert_close(copied(X, widths)[0], after)


def test_no_points_and_wrong_columns() -> None:
    bounds = Bounds(predictors("matern and rbf", torch.Size([2])))
    widths = [torch.tensor(1.0).double()] * 2
    assert [bound.shape for bound in bounds(torch.rand(2, 0, 2).double(), widths)] == [(2, 0)] * 2
    with pytest.raises(BotorchTensorDimensionError, match="2"):
        bounds(torch.rand(2, 5, 3).double(), widths)


def test_an_exponential_kernel_in_a_list_keeps_its_digits_close_to_data() -> None:
    r"""It falls linearly from distance 0, where squared distances by a product are rounding."""
    X = torch.rand(8, 2, generator=torch.Generator().manual_seed(0)).double()
    Y = (5 * X).sin().sum(dim=-1, keepdim=True)
    at = X + 1e-7 * torch.tensor([1.0, -1.0])
    kernels = [MaternKernel(nu=nu, ard_num_dims=2) for nu in (0.5, 2.5)]
    models = [
        SingleTaskGP(X, Y, torch.full_like(Y, 1e-6), covar_module=each, outcome_transform=None)
        for each in kernels
    ]
    for model in models:
        model.covar_module.lengthscale = 0.5
    bounds = Bounds([Belief(model.eval()) for model in models])
    found, _ = bounds(at, 2 * [torch.tensor(2.0).double()])

    def kernel(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.exp([[-math.dist(x, z) / 0.5 for z in second] for x in first])

    known, new = X.numpy(), at.numpy()
    cross = np.linalg.solve(kernel(known, known) + 1e-6 * np.eye(8), kernel(known, new))
    constant = models[0].mean_module.constant.item()
    mean = constant + cross.T @ (Y.numpy()[:, 0] - constant)
    variance = 1 - np.einsum("ij,ij->j", cross, kernel(known, new))
    np.testing.assert_allclose(found.detach(), mean + 2 * np.sqrt(variance), rtol=0, atol=1e-9)
