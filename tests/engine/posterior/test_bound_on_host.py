r"""The bound in NumPy against the one in PyTorch, and closed forms against autograd."""

import math
from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_risk.acquisition import RiskAverseLowerConfidenceBound, RiskAverseUpperConfidenceBound
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.engine import Belief
from botorch_risk.engine.posterior import stationary_moments
from botorch_risk.engine.posterior.bounds import Bounds
from botorch_risk.models import MeanVarianceGP

NUS = (1.5, 2.5, math.inf)


def model(seed: int) -> SingleTaskGP:
    torch.manual_seed(seed)
    n, d = int(torch.randint(2, 30, ())), int(torch.randint(1, 4, ()))
    X = torch.rand(n, d, dtype=torch.double)
    Y = (4 * X).sin().sum(dim=-1, keepdim=True)
    noise = torch.full_like(Y, 1.01 * 10.0 ** -float(6 * torch.rand(())))
    nu = NUS[seed % 3]
    kernel = RBFKernel(d) if nu == math.inf else MaternKernel(nu, ard_num_dims=d)
    gp = SingleTaskGP(X, Y, noise, covar_module=ScaleKernel(kernel), outcome_transform=None)
    kernel.lengthscale = 0.2 + torch.rand(1, d, dtype=torch.double)
    return gp.eval()


def bound_and_gradient(gp: SingleTaskGP, X: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    X = X.detach().requires_grad_()
    (value,) = Bounds([Belief(gp)])(X, [width])
    return value.detach(), torch.autograd.grad(value.sum(), X)[0]


def test_it_is_the_bound_of_pytorch_on_a_thousand_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(50):
        gp = model(seed)
        X = torch.rand(20, gp.train_inputs[0].shape[-1], dtype=torch.double)
        width = torch.randn(1, dtype=torch.double)
        found = []
        for most in (0, 2**15):
            monkeypatch.setattr(stationary_moments, "MOST_CORRELATIONS", most)
            found.append(bound_and_gradient(gp, X, width))
        for theirs, ours in zip(*found, strict=True):
            scale = max(1.0, float(theirs.abs().max()))
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9 * scale)


@pytest.mark.every_device
@pytest.mark.parametrize("transform", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("make", [RiskAverseUpperConfidenceBound, RiskAverseLowerConfidenceBound])
def test_the_gradient_in_closed_form_is_the_one_by_autograd(
    make: Any, batch: tuple[int, ...], transform: bool, device: torch.device
) -> None:
    X = 3 * torch.rand(*batch, 9, 2, dtype=torch.double).to(device)
    Y = (2 * X).sin().sum(dim=-1, keepdim=True).expand(*batch, 9, 4)
    Y = Y + 0.2 * torch.randn(Y.shape, dtype=torch.double).to(device)
    options = {"input_transform": Normalize(2, batch_shape=torch.Size(batch))} if transform else {}
    acqf = make(MeanVarianceGP(X, Y, **options), beta=2.0, noise_beta=3.0, risk_aversion=0.7)
    points = 3 * torch.rand(*batch, 5, 2, dtype=torch.double).to(device)
    found = acqf.value_and_gradient(points)
    expected = PointwiseAcquisitionFunction.value_and_gradient(acqf, points)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    on_host = acqf.on_host(5)
    assert (on_host is None) == (device.type != "cpu") and acqf.on_host(10**5) is None
    if on_host is not None:
        for array, theirs in zip(on_host(points.numpy()), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(array), theirs, rtol=1e-10, atol=1e-10)


def test_a_subclass_with_values_of_its_own_has_their_gradient() -> None:
    class Squared(RiskAverseUpperConfidenceBound):
        def evaluate(self, X: Tensor) -> Tensor:
            return super().evaluate(X).square()

    X = torch.rand(9, 2, dtype=torch.double)
    acqf = Squared(MeanVarianceGP(X, X.sum(dim=-1, keepdim=True) + torch.rand(9, 3).double()))
    points = torch.rand(5, 2, dtype=torch.double)
    value, gradient = acqf.value_and_gradient(points)
    plain, of_plain = RiskAverseUpperConfidenceBound.value_and_gradient(acqf, points)
    torch.testing.assert_close(value, plain.square())
    torch.testing.assert_close(gradient, 2 * plain.unsqueeze(-1) * of_plain)
    assert acqf.on_host(5) is None
