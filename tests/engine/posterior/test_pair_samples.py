r"""Joint samples over W of low rank, against the joint posterior and differences of values."""

import math
from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_risk.engine import Belief
from botorch_risk.engine.posterior.kernels import StationaryKernel
from botorch_risk.engine.posterior.pair_samples import _newton_basis
from botorch_risk.engine.posterior.product import ProductMarginals


def pairs_of(
    batch: tuple[int, ...] = (), n_w: int = 30, noise: float = 1e-3, device: Any = None
) -> ProductMarginals:
    generator = torch.Generator().manual_seed(0)
    X = 5 * torch.rand(*batch, 12, 3, generator=generator, dtype=torch.double).to(device)
    Y = X.sin().sum(dim=-1, keepdim=True)
    transform = Normalize(3, batch_shape=torch.Size(batch))
    gp = SingleTaskGP(X, Y, torch.full_like(Y, noise), input_transform=transform).eval()
    count = torch.arange(torch.Size(batch).numel(), device=X.device).reshape(*batch, 1, 1)
    gp.covar_module.lengthscale = 0.3 + 0.4 * count.double() + torch.zeros(1, 3).to(X)
    W = torch.linspace(0, 5, n_w, dtype=torch.double).unsqueeze(-1).to(device)
    return Belief(gp).pairs(W)


def decisions(batch: tuple[int, ...], device: Any = None) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 5 * torch.rand(*batch, 4, 2, generator=generator, dtype=torch.double).to(device)


def raw(samples: Tensor) -> tuple[Tensor, None]:
    return samples, None


def bent(samples: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        samples = samples.detach().requires_grad_()
        value = (samples.sin() * torch.arange(samples.shape[-1]).to(samples)).sum(dim=-1)
        value = value.square().mean(dim=-1).sqrt()
        return value.detach(), torch.autograd.grad(value.sum(), samples)[0]


@pytest.mark.every_device
@pytest.mark.parametrize("batch", [(), (2,), (2, 2)], ids=str)
@pytest.mark.parametrize("noise", [1e-5, 1e-1])
def test_the_samples_have_the_joint_moments(
    batch: tuple[int, ...], noise: float, device: torch.device
) -> None:
    pairs, X = pairs_of(batch, noise=noise, device=device), decisions(batch, device)
    n_w = 30
    identity = torch.eye(n_w, dtype=torch.double).to(device)
    plus, _ = pairs.reduced(X, raw, numbers=identity)
    minus, _ = pairs.reduced(X, raw, numbers=-identity)
    root = 0.5 * (plus - minus)  # ... m x numbers x n_w: a sample is linear in its numbers
    W = pairs.points.expand(*batch, 4, n_w, 1)
    inputs = torch.cat([X.unsqueeze(-2).expand(*batch, 4, n_w, 2), W], dim=-1)
    mean, covariance = pairs.belief.joint()(inputs)
    prior = float(covariance.amax())
    torch.testing.assert_close(0.5 * (plus + minus)[..., 0, :], mean, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(root.mT @ root, covariance, rtol=0, atol=1e-6 * max(1.0, prior))


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("num_samples", [3, 16])
def test_the_gradient_is_that_of_differences(batch: tuple[int, ...], num_samples: int) -> None:
    pairs, X = pairs_of(batch), decisions(batch)
    numbers = torch.randn(num_samples, 30, generator=torch.Generator().manual_seed(2)).double()
    _, gradient = pairs.reduced(X, bent, numbers=numbers)
    assert gradient is not None
    for column in range(2):
        step = torch.zeros(2, dtype=torch.double)
        step[column] = 1e-5
        ends = [pairs.reduced(X + side * step, bent, numbers=numbers)[0] for side in (1, -1)]
        slope = (ends[0] - ends[1]) / 2e-5
        scale = float(gradient.abs().max())
        torch.testing.assert_close(gradient[..., column], slope, rtol=0, atol=1e-6 * scale)


def test_a_replicate_alone_has_the_samples_that_it_has_in_a_batch() -> None:
    r"""Also if another one needs more columns: their lengthscales are far apart."""
    batch = (3,)
    together, X = pairs_of(batch), decisions(batch)
    numbers = torch.randn(8, 30, generator=torch.Generator().manual_seed(2)).double()
    expected, gradients = together.reduced(X, bent, numbers=numbers)
    ranks = set()
    model = together.belief.model
    for replicate in range(3):
        train_X = model._original_train_inputs[replicate]
        Y = train_X.sin().sum(dim=-1, keepdim=True)
        gp = SingleTaskGP(train_X, Y, torch.full_like(Y, 1e-3), input_transform=Normalize(3)).eval()
        gp.covar_module.lengthscale = model.covar_module.lengthscale[replicate]
        alone = Belief(gp).pairs(together.points)
        value, gradient = alone.reduced(X[replicate], bent, numbers=numbers)
        torch.testing.assert_close(value, expected[replicate], rtol=1e-8, atol=1e-8)
        assert gradients is not None
        torch.testing.assert_close(gradient, gradients[replicate], rtol=1e-7, atol=1e-7)
        assert alone._samples is not None
        ranks.add(alone._samples.root.shape[-1])
    assert len(ranks) == 3


def test_equal_values_of_an_even_grid_are_told_apart_by_order_and_not_by_rounding() -> None:
    torch.manual_seed(0)
    kernel = StationaryKernel(math.inf, torch.ones(1, 1).double(), torch.ones(1, 1).double())
    for n_w in range(4, 40):
        W = 3 * torch.linspace(0, 1, n_w, dtype=torch.double).unsqueeze(-1)
        others = torch.zeros(0, 1, dtype=torch.double)
        expected = _newton_basis(W, others, kernel)
        found = _newton_basis(W + 1e-14 * torch.randn_like(W), others, kernel)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
