r"""Moments of a reading and of weighted sums: in one node, in NumPy, and from their parts."""

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Size, Tensor

from botorch_risk.engine import Belief
from botorch_risk.engine.posterior import product, weighted_sums
from botorch_risk.engine.posterior.weighted_sums import WeightedSums

W = torch.tensor([[0.1], [0.4], [0.9]], dtype=torch.double)
KERNELS = {
    "squared exponential": lambda shape: RBFKernel(ard_num_dims=3, batch_shape=shape),
    "matern 1/2": lambda shape: MaternKernel(nu=0.5, batch_shape=shape),
    "matern 3/2": lambda shape: MaternKernel(nu=1.5, batch_shape=shape),
    "matern 5/2": lambda shape: ScaleKernel(
        MaternKernel(ard_num_dims=3, batch_shape=shape), batch_shape=shape
    ),
}
batches = pytest.mark.parametrize("shape", [Size(), Size([2])], ids=["one", "two"])
normalized = pytest.mark.parametrize("normalize", [False, True], ids=["unit", "normalize"])


def build(kernel: Kernel, shape: Size, normalize: bool) -> tuple[Belief, WeightedSums]:
    r"""A model and the sums over W at four decisions, under weights of either sign."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.rand(*shape, *size, generator=generator, dtype=torch.double)

    X, decisions = 3 * draw(15, 3), 3 * draw(4, 2)
    options = {"input_transform": Normalize(3, batch_shape=shape)} if normalize else {}
    Y = X.sin().sum(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y, covar_module=kernel, **options)
    model.likelihood.noise = 1e-4
    belief = Belief(model.eval())
    process, B = belief.process(), shape.numel()
    pairs = torch.cat(
        [decisions.unsqueeze(-2).expand(*shape, 4, 3, 2), W.expand(*shape, 4, 3, 1)], dim=-1
    )
    points = process.at(pairs.reshape(B, 12, 3))
    weights = draw(4, 3).reshape(B, 4, 3) - 0.3
    return belief, process.weighted_sums(points, weights)


@batches
@normalized
@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_of_a_reading_and_their_gradient(
    kernel: str, normalize: bool, shape: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""By autograd through each part, in one node, and in NumPy."""
    _, sums = build(KERNELS[kernel](shape), shape, normalize)
    B = shape.numel()
    X = 3 * torch.rand(B, 5, 3, dtype=torch.double)
    X[:, 0] = sums.process.prior.model.train_inputs[0].reshape(B, 15, 3)[:, 0]  # known well
    X = X.requires_grad_()
    pull = torch.randn(B, 5, 4, dtype=torch.double), torch.randn(B, 5, dtype=torch.double)

    def moments_and_gradient(covariance: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        value = (covariance * pull[0]).sum() + (variance * pull[1]).sum()
        return covariance, variance, torch.autograd.grad(value, X)[0]

    at = sums.process.at(X)
    expected = moments_and_gradient(sums.covariance(at), at.variance)
    for most in (weighted_sums.MOST_ENTRIES, 0):
        monkeypatch.setattr(weighted_sums, "MOST_ENTRIES", most)
        covariance, variance, gradient = moments_and_gradient(*sums.moments_at(X))
        torch.testing.assert_close(covariance, expected[0], rtol=0, atol=1e-10)
        torch.testing.assert_close(variance, expected[1], rtol=0, atol=1e-10)
        torch.testing.assert_close(gradient, expected[2], rtol=1e-8, atol=1e-8)
    with torch.no_grad():
        for found, value in zip(sums.moments_at(X), expected[:2], strict=True):
            torch.testing.assert_close(found, value, rtol=0, atol=1e-10)


@batches
@normalized
def test_moments_over_w(normalize: bool, shape: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""In NumPy, for tensors, and reading by reading."""
    belief, sums = build(KERNELS["squared exponential"](shape), shape, normalize)
    B, pairs = shape.numel(), belief.pairs(W)
    X = 3 * torch.rand(B, 5, 2, dtype=torch.double)
    readings = torch.cat(
        [X.unsqueeze(-2).expand(B, 5, 3, 2), W.expand(B, 5, 3, 1)], dim=-1
    ).flatten(1, 2)
    covariance, variance = (each.detach() for each in sums.moments_at(readings))
    for on_host in (True, False):
        monkeypatch.setattr(product, "are_on_host", lambda *X, on_host=on_host: on_host)
        scaled, scale, found = pairs.moments_with(sums, X)
        torch.testing.assert_close(found, variance.unflatten(-1, (5, 3)), rtol=0, atol=1e-10)
        torch.testing.assert_close(
            scaled * scale[..., None, None], covariance.unflatten(1, (5, 3)), rtol=0, atol=1e-10
        )
