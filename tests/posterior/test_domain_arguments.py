r"""Arguments of a posterior over a finite domain that are refused."""

from __future__ import annotations

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel

from botorch_risk.posterior import DomainPosterior
from tests.posterior.domains import build, domain, truth


def test_memory_guard_names_the_bytes_and_the_way_out() -> None:
    D = domain()
    model = build(D[:2], truth(D[:2]), 1e-3)
    with pytest.raises(UnsupportedError, match=r"12,800 bytes \(1 x 40 x 40 x 8\).*`dense=False`"):
        DomainPosterior(model, D, max_bytes=12_000)
    assert DomainPosterior(model, D, max_bytes=12_000, dense=False).variance.shape == (40,)


def test_bad_input() -> None:
    D = domain()
    model = build(D[:2], truth(D[:2]), 1e-3)
    two = SingleTaskGP(D[:4], torch.cat([truth(D[:4]), D[:4, :1]], dim=-1))
    with pytest.raises(UnsupportedError, match=r"one output.*num_outputs=2"):
        DomainPosterior(two, D)
    with pytest.raises(BotorchTensorDimensionError, match="at least one point"):
        DomainPosterior(model, D[:0])
    with pytest.raises(BotorchTensorDimensionError, match=r"batch_shape x \|D\| x d"):
        DomainPosterior(model, D.expand(3, 40, 2))
    for columns in (D[:, :1], torch.cat([D, D], dim=-1)):
        with pytest.raises(BotorchTensorDimensionError, match="`domain` to have the 2 columns"):
            DomainPosterior(model, columns)
    nothing = ScalarizedPosteriorTransform(torch.zeros(1).double())
    with pytest.raises(ValueError, match=r"finite weight that is not 0. Got weight=0.0"):
        DomainPosterior(model, D, posterior_transform=nothing)
    with pytest.raises(InputDataError, match="finite `domain`"):
        DomainPosterior(model, D * torch.nan)
    posterior = DomainPosterior(model, D)
    mean = posterior.mean
    for index in (-1, 40):
        with pytest.raises(InputDataError, match=r"`index` in \[0, 40\)"):
            posterior.observe(index, 1.0, 1e-3)
    for index in (3.5, 3.0, torch.tensor(3.0), torch.tensor(True)):
        with pytest.raises(InputDataError, match=r"Expected integers as `index`. Got"):
            posterior.observe(index, 1.0, 1e-3)
    with pytest.raises(BotorchTensorDimensionError, match="one `index`, or one for each of 1 rep"):
        posterior.observe(torch.tensor([1, 2]), 1.0, 1e-3)
    with pytest.raises(BotorchTensorDimensionError, match="one `y`, or one for each of 1 rep"):
        posterior.observe(1, torch.zeros(2), 1e-3)
    with pytest.raises(InputDataError, match="finite `X`"):
        posterior.observe_at(torch.tensor([0.1, torch.nan]), 1.0, 1e-3)
    with pytest.raises(InputDataError, match="finite `y`"):
        posterior.observe(1, torch.inf, 1e-3)
    for noise in (-1.0, torch.nan):
        with pytest.raises(ValueError, match="finite noise variances >= 0"):
            posterior.observe(1, 1.0, noise)
    with pytest.raises(ValueError, match="noise of the model is fixed"):
        posterior.observe(1, 1.0)
    assert torch.equal(posterior.mean, mean)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_float32_refuses_small_noise() -> None:
    D = domain().float()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-2, RBFKernel()), D)
    posterior.observe(3, 1.0, 1e-3)
    assert posterior.mean.dtype == torch.float32
    with pytest.raises(InputDataError, match="float64 for noise below 1e-4"):
        posterior.observe(3, 1.0, 1e-5)
