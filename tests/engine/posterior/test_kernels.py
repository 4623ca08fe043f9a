r"""Kernel profiles, and the mean and variance that they give with gradients."""

import math

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import (
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import Belief
from botorch_risk.engine.posterior import stationary_moments
from botorch_risk.engine.posterior.kernels import StationaryKernel, squared_distance
from tests.engine.posterior.examples import (
    KERNELS,
    LargestTensor,
    assert_agrees,
    make_kernel,
    make_model,
    reference,
)

PROFILES = {
    math.inf: lambda r: math.exp(-(r**2) / 2),
    0.5: lambda r: math.exp(-r),
    1.5: lambda r: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
    2.5: lambda r: (1 + math.sqrt(5) * r + 5 / 3 * r**2) * math.exp(-math.sqrt(5) * r),
}

GPYTORCH_KERNELS = [
    RBFKernel,
    *(lambda nu=nu, **kw: MaternKernel(nu=nu, **kw) for nu in (0.5, 1.5, 2.5)),
]


def of(nu):
    one = torch.ones(1, 1, dtype=torch.double)
    return StationaryKernel(nu=nu, lengthscale=one, outputscale=one)


@pytest.mark.parametrize("nu", PROFILES)
def test_profiles_equal_the_textbook(nu):
    distances = torch.tensor([0.0, 1e-4, 0.3, 1.0, 2.5, 30.0], dtype=torch.double)
    expected = torch.tensor([PROFILES[nu](r) for r in distances.tolist()], dtype=torch.double)
    kernel = of(nu)
    torch.testing.assert_close(kernel.correlation(distances.square()), expected)
    correlation, slope = kernel.correlation_and_slope(distances.square())
    torch.testing.assert_close(correlation, expected)
    for r, value in zip(distances[2:].tolist(), slope[2:].tolist(), strict=True):
        h = 1e-6
        derivative = (PROFILES[nu](r + h) - PROFILES[nu](r - h)) / (2 * h)
        assert value == pytest.approx(-derivative / r, rel=1e-5, abs=1e-11)
    assert slope.isfinite().all()  # also at the kink of the exponential kernel


@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("ard", [None, 3])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("make", GPYTORCH_KERNELS)
def test_reads_kernels_of_gpytorch(make, scaled, ard, batch_shape):
    shape = torch.Size(batch_shape)
    kernel = make(ard_num_dims=ard, batch_shape=shape)
    kernel.lengthscale = 0.2 + torch.rand(kernel.lengthscale.shape)
    if scaled:
        kernel = ScaleKernel(kernel, batch_shape=shape)
        kernel.outputscale = 0.5 + torch.rand(kernel.outputscale.shape)
    kernel = kernel.double()
    X1, X2 = (torch.rand(*batch_shape, m, 3, dtype=torch.double) for m in (4, 5))
    direct = StationaryKernel.of(kernel)
    Z1, Z2 = X1 / direct.lengthscale, X2 / direct.lengthscale
    values = direct.outputscale * direct.correlation(squared_distance(Z1, Z2))
    torch.testing.assert_close(values, kernel(X1, X2).to_dense().detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        RQKernel(),
        LinearKernel(),
        PeriodicKernel(),
        RBFKernel(active_dims=(0,)),
        ScaleKernel(ScaleKernel(RBFKernel())),
        ScaleKernel(RBFKernel(active_dims=(0,))),
        ScaleKernel(RBFKernel(), active_dims=(0,)),
        RBFKernel() + RBFKernel(),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_leaves_other_kernels_alone(kernel):
    assert StationaryKernel.of(kernel) is None


def test_squared_distances_are_never_negative():
    X = 1e3 + torch.rand(50, 2, dtype=torch.double)
    distances = squared_distance(X, X)
    assert (distances >= 0).all()
    torch.testing.assert_close(
        distances,
        torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist") ** 2,
        rtol=0,
        atol=1e-8,
    )


@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_those_of_finite_differences(kernel, batch_shape):
    inputs = "warp" if kernel == "rbf" else None
    predictor = Belief(make_model(kernel, batch_shape=batch_shape, inputs=inputs, n=6))
    X = (0.05 + 0.9 * torch.rand(*batch_shape, 3, 2, dtype=torch.double)).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: tuple(predictor(X)), X)


def test_gradients_equal_those_of_the_posterior_over_several_chunks(monkeypatch):
    monkeypatch.setattr(stationary_moments, "_CROSS_COVARIANCE", ChunkSize(cpu=12 * 64))
    model = make_model()
    X = torch.rand(150, 2, dtype=torch.double, requires_grad=True)
    gradients = []
    for mean, variance in (Belief(model)(X), reference(model, X)):
        gradients.append(torch.autograd.grad((mean + variance.sqrt()).sum(), X)[0])
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


def test_keeps_no_graph_where_none_is_wanted():
    predictor = Belief(make_model())
    X = torch.rand(3, 2, dtype=torch.double)
    assert not predictor(X).mean.requires_grad
    with torch.no_grad():
        assert not predictor(X.requires_grad_()).variance.requires_grad


@pytest.mark.parametrize(
    ("kernel", "grad"),
    [
        ("matern2.5", False),
        ("matern2.5", True),
        ("matern0.5", True),
        ("rq", False),  # with gradients, kernels of GPyTorch keep their own graph
    ],
)
def test_memory_does_not_grow_beyond_the_result(kernel, grad):
    predictor = Belief(make_model(kernel, n=40))
    X = torch.rand(40_000, 2, dtype=torch.double, requires_grad=grad)
    with LargestTensor() as largest:
        moments = predictor(X)
        if grad:
            (moments.mean + moments.variance).sum().backward()
    # The cross-covariance has 1,600,000 entries, a chunk of it at most 131,072 (twice that
    # where inputs are stacked).
    assert largest.entries <= 2**18


@pytest.mark.parametrize("kernel", ["matern0.5", "matern2.5", "rbf"])
@pytest.mark.parametrize("offset", [0.0, 2000.0])
def test_keeps_its_digits_far_from_the_origin(kernel, offset):
    X = offset + torch.rand(20, 2, dtype=torch.double)
    model = SingleTaskGP(
        X,
        (X - offset).sum(dim=-1, keepdim=True).sin(),
        train_Yvar=torch.full((20, 1), 1e-4, dtype=torch.double),
        covar_module=make_kernel(kernel, True, True, ()),
        outcome_transform=None,
    )
    assert_agrees(Belief(model), torch.cat([X, X + 0.01]))
