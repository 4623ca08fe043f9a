r"""Chunks, memory, digits and gradients of the direct formulas."""

from __future__ import annotations

import pytest
import torch
from botorch.models import SingleTaskGP

from botorch_risk.chunks import ChunkSize
from botorch_risk.posterior import MarginalPredictor, stationary_moments
from tests.posterior.examples import (
    KERNELS,
    LargestTensor,
    assert_agrees,
    make_kernel,
    make_model,
    reference,
)


@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_those_of_finite_differences(kernel, batch_shape):
    inputs = "warp" if kernel == "rbf" else None
    predictor = MarginalPredictor(make_model(kernel, batch_shape=batch_shape, inputs=inputs, n=6))
    X = (0.05 + 0.9 * torch.rand(*batch_shape, 3, 2, dtype=torch.double)).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: tuple(predictor(X)), X)


def test_gradients_equal_those_of_the_posterior_over_several_chunks(monkeypatch):
    monkeypatch.setattr(stationary_moments, "_CROSS_COVARIANCE", ChunkSize(cpu=12 * 64))
    model = make_model()
    X = torch.rand(150, 2, dtype=torch.double, requires_grad=True)
    gradients = []
    for mean, variance in (MarginalPredictor(model)(X), reference(model, X)):
        gradients.append(torch.autograd.grad((mean + variance.sqrt()).sum(), X)[0])
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


def test_keeps_no_graph_where_none_is_wanted():
    predictor = MarginalPredictor(make_model())
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
    predictor = MarginalPredictor(make_model(kernel, n=40))
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
    assert_agrees(MarginalPredictor(model), torch.cat([X, X + 0.01]))
