r"""Joint samples of many points, in blocks, beside points that a t-batch shares."""

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

from botorch_risk.engine import Belief
from botorch_risk.models.joint_posterior import JointPosterior
from botorch_risk.models.robust_model import constant_rows, rows_without_gradient

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


def joint(
    model: SingleTaskGP, constant: torch.Tensor, X: torch.Tensor, transform: Any = None
) -> JointPosterior:
    return JointPosterior(Belief(model, transform).sampler().block(constant), X)


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
    samples = sampler(joint(gp, constant, X, transform))
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
    posterior = joint(gp, constant, X)
    base = torch.randn(6, 5, 7, dtype=torch.float64)
    samples = posterior.rsample_from_base_samples(torch.Size([6]), base)
    for i in range(5):
        alone = joint(gp, constant, X[i : i + 1])
        single = alone.rsample_from_base_samples(torch.Size([6]), base[:, i : i + 1])
        torch.testing.assert_close(samples[:, i : i + 1], single)


def test_shapes() -> None:
    posterior = joint(model(), *candidates())
    assert posterior.rsample().shape == (1, 5, 7, 1)
    assert posterior.rsample(torch.Size([2, 3])).shape == (2, 3, 5, 7, 1)
    assert posterior.batch_shape == (5,)
    assert posterior.device.type == "cpu"


def test_the_sampler_for_very_many_points() -> None:
    few = joint(model(), *candidates())
    many = joint(model(), torch.empty(0, 2).double(), torch.rand(1, 21202, 2).double())
    assert type(get_sampler(few, torch.Size([2]))) is SobolQMCNormalSampler
    assert type(get_sampler(many, torch.Size([2]))) is IIDNormalSampler


def test_constant_points_are_factored_once_until_the_model_changes() -> None:
    gp, (constant, X) = model(), candidates()
    sampler = Belief(gp).sampler()
    block = sampler.block(constant)
    assert sampler.block(constant.clone()) is block
    before = JointPosterior(block, X).rsample(torch.Size([2])).shape
    gp.likelihood.noise = 0.5
    assert sampler.block(constant) is not block
    copied = pickle.loads(pickle.dumps(sampler)).block(constant)
    assert JointPosterior(copied, X).rsample(torch.Size([2])).shape == before


def test_a_model_in_training_mode_is_sampled() -> None:
    assert joint(model().train(), *candidates()).rsample().isfinite().all()


def points(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def test_rows_in_front_of_a_t_batch() -> None:
    X = torch.cat([points(3, 2).expand(5, 3, 2), points(5, 2, 2)], dim=-2)
    assert constant_rows(X) == 3
    assert constant_rows(X.reshape(5, 1, 5, 2)) == 3
    X[4, 1, 0] += 1  # one coordinate
    assert constant_rows(X) == 1


def test_the_last_row_is_no_constant() -> None:
    assert constant_rows(points(3, 2).expand(5, 3, 2)) == 2
    assert constant_rows(points(1, 2).expand(5, 1, 2)) == 0
    assert constant_rows(points(4, 2)) == 3
    assert constant_rows(points(0, 3, 2)) == 0


def test_rows_that_take_a_gradient_are_none() -> None:
    shared = points(3, 2).requires_grad_()
    X = torch.cat([shared.expand(5, 3, 2), points(5, 2, 2)], dim=-2)
    assert constant_rows(X) == 0
    assert constant_rows(points(5, 3, 2).requires_grad_()) == 0


def test_candidates_that_agree_by_chance_keep_their_gradient() -> None:
    r"""All entries alike: only the node that joined them knows which rows are constants."""
    candidates = points(1, 2, 2).expand(5, 2, 2).clone().requires_grad_()
    X = torch.cat([points(3, 2).expand(5, 3, 2), candidates], dim=-2)
    assert constant_rows(X) == 3
    assert constant_rows(torch.cat([points(3, 2), candidates[0]], dim=-2)) == 3
    X.sum().backward()  # asking has not used the graph up
    assert candidates.grad is not None


def test_other_operations_are_not_asked() -> None:
    candidates = points(5, 2, 2).requires_grad_()
    X = torch.cat([points(3, 2).expand(5, 3, 2), candidates], dim=-2)
    assert rows_without_gradient(X * 2) == 0
    assert rows_without_gradient(torch.cat([X, X], dim=-1)) == 0
    assert rows_without_gradient(torch.cat([X.detach(), X], dim=-1)) == 0
