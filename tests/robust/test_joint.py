r"""Joint samples are BoTorch's own, and evaluated points are sampled once."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_risk.robust.joint import JointProcess

KERNELS = {
    "rbf": lambda: RBFKernel(ard_num_dims=2),
    "matern": lambda: ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2)),
    "periodic": lambda: ScaleKernel(PeriodicKernel()),  # through its own forward
}


def model(kernel: str = "rbf", dtype: torch.dtype = torch.float64) -> SingleTaskGP:
    X = 3 * torch.rand(9, 2, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # float32
        gp = SingleTaskGP(
            X,
            5 + 2 * X.sin().sum(dim=-1, keepdim=True),
            covar_module=KERNELS[kernel](),
            input_transform=Normalize(2),
            outcome_transform=Standardize(1),
        )
    gp.likelihood.noise = 1e-2
    getattr(gp.covar_module, "base_kernel", gp.covar_module).lengthscale = 0.3
    return gp.eval()


def candidates(dtype: torch.dtype = torch.float64) -> Any:
    constant = 3 * torch.rand(4, 2, dtype=dtype)
    return constant, (3 * torch.rand(5, 3, 2, dtype=dtype)).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("transformed", [False, True])
def test_samples_and_gradients_are_those_of_the_model(
    kernel: str, dtype: torch.dtype, transformed: bool
) -> None:
    gp, (constant, X) = model(kernel, dtype), candidates(dtype)
    weights = torch.tensor([-1.0], dtype=dtype)
    transform = ScalarizedPosteriorTransform(weights) if transformed else None
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=1)
    every = torch.cat([constant.expand(5, 4, 2), X], dim=-2)
    expected = sampler(gp.posterior(every, posterior_transform=transform))
    samples = sampler(JointProcess(gp, transform).posterior(constant, X))
    assert samples.dtype == dtype
    tolerance = 1e-10 if dtype == torch.float64 else 5e-3
    torch.testing.assert_close(samples, expected, rtol=tolerance, atol=tolerance)
    gradients = [
        torch.autograd.grad((each[..., 4:, :] ** 3).sum(), X)[0] for each in (samples, expected)
    ]
    size = gradients[1].abs().max()
    tolerance = 1e-9 if dtype == torch.float64 else 5e-2
    torch.testing.assert_close(gradients[0] / size, gradients[1] / size, rtol=0, atol=tolerance)


def test_numbers_that_differ_in_the_batch() -> None:
    gp, (constant, X) = model(), candidates()
    posterior = JointProcess(gp).posterior(constant, X)
    base = torch.randn(6, 5, 7, dtype=torch.float64)
    samples = posterior.rsample_from_base_samples(torch.Size([6]), base)
    for i in range(5):
        alone = JointProcess(gp).posterior(constant, X[i : i + 1])
        single = alone.rsample_from_base_samples(torch.Size([6]), base[:, i : i + 1])
        torch.testing.assert_close(samples[:, i : i + 1], single)


def test_shapes() -> None:
    posterior = JointProcess(model()).posterior(*candidates())
    assert posterior.rsample().shape == (1, 5, 7, 1)
    assert posterior.rsample(torch.Size([2, 3])).shape == (2, 3, 5, 7, 1)
    assert posterior.batch_shape == (5,)
    assert posterior.device.type == "cpu"


def test_the_sampler_for_very_many_points() -> None:
    process = JointProcess(model())
    few = process.posterior(*candidates())
    many = process.posterior(torch.empty(0, 2).double(), torch.rand(1, 21202, 2).double())
    assert type(get_sampler(few, torch.Size([2]))) is SobolQMCNormalSampler
    assert type(get_sampler(many, torch.Size([2]))) is IIDNormalSampler


def test_constant_points_are_factored_once_until_the_model_changes() -> None:
    gp, (constant, X) = model(), candidates()
    process = JointProcess(gp)
    block = process.posterior(constant, X).block
    assert process.posterior(constant.clone(), X).block is block
    before = process.posterior(constant, X).rsample(torch.Size([2])).shape
    gp.likelihood.noise = 0.5
    assert process.posterior(constant, X).block is not block
    copy = pickle.loads(pickle.dumps(process))
    assert copy.posterior(constant, X).rsample(torch.Size([2])).shape == before


def test_what_is_served() -> None:
    assert JointProcess.serves(model())
    batched = SingleTaskGP(torch.rand(2, 9, 2).double(), torch.rand(2, 9, 1).double())
    assert not JointProcess.serves(batched)
    process = JointProcess(model().train())
    assert process.posterior(*candidates()).rsample().isfinite().all()
