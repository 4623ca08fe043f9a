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

from botorch_risk.robust.joint import Block, JointProcess, determining_points, safe_root
from botorch_risk.robust.model import constant_rows, rows_without_gradient
from tests.contracts import of_decision_and_context, repeated_data

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


def pairs(n: int, n_w: int) -> torch.Tensor:
    r"""All pairs of `n` decisions and `n_w` values, `(n n_w) x 3`."""
    x, w = torch.rand(n, 2, dtype=torch.float64), torch.linspace(0, 1, n_w, dtype=torch.float64)
    return torch.cat([x.repeat_interleave(n_w, 0), w.repeat(n)[:, None]], dim=-1)


def process() -> Any:
    return JointProcess(of_decision_and_context(repeated_data()))._current()


def test_the_root_of_many_points_is_that_of_their_covariance() -> None:
    points, data = pairs(7, 32), process()
    block = Block.of(data, points)
    at = data.at(points)
    covariance = data.covariance(at, at)[0]
    assert len(block.active) < len(points) / 2
    torch.testing.assert_close(block.root @ block.root.mT, covariance, rtol=0, atol=1e-7)
    model = data.process.model
    torch.testing.assert_close(block.mean, model.posterior(points).mean.squeeze(-1))


def test_the_rest_is_conditioned_on_the_block() -> None:
    r"""Its variance given the block equals the one of a model with the block as exact data."""
    points, other = pairs(3, 8), pairs(2, 3)
    data = process()
    block = Block.of(data, points)
    prior = data.process.points(other)
    correlation = data.process.correlation(prior.inputs, block.inputs)
    whitened = block.factor @ correlation.mT * prior.scale.unsqueeze(-2)
    variance = (prior.variance - whitened.square().sum(dim=-2))[0]
    every = torch.cat([points, other])
    covariance = data.process.model.posterior(every).distribution.covariance_matrix.detach()
    known, cross, own = covariance[:24, :24], covariance[:24, 24:], covariance[24:, 24:]
    explained = cross.mT @ torch.linalg.pinv(known, rtol=1e-9, hermitian=True) @ cross
    torch.testing.assert_close(variance, (own - explained).diagonal(), rtol=0, atol=1e-6)


def test_samples_are_made_once_for_the_same_numbers() -> None:
    block = Block.of(process(), pairs(2, 3))
    base = torch.randn(5, 1, 9, dtype=torch.float64)
    first = block.samples(base)
    assert block.samples(base) is first
    base.add_(1)
    assert block.samples(base) is not first
    with torch.inference_mode():
        torch.testing.assert_close(block.samples(base.clone()), block.samples(base))


def test_no_points_are_a_block() -> None:
    block = Block.of(process(), torch.empty(0, 3, dtype=torch.float64))
    assert block.samples(torch.zeros(4, 1, 6, dtype=torch.float64)).shape == (4, 1, 0)


def test_points_that_determine_the_others() -> None:
    root = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.5, 0.0]], dtype=torch.float64)
    chosen = determining_points(root @ root.mT, torch.tensor(1e-9))
    assert chosen.tolist() == [0, 1]
    assert determining_points(torch.eye(3), torch.tensor(1e-9)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_only_weak_entries_get_a_jitter(dtype: torch.dtype) -> None:
    good = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=dtype)
    covariance = torch.stack([good, torch.ones(2, 2, dtype=dtype)])
    root = safe_root(covariance, torch.ones((), dtype=dtype))
    assert torch.equal(root[0], torch.linalg.cholesky(good))
    assert (root @ root.mT - covariance).abs().max() < 1e-3
    assert torch.equal(safe_root(good, torch.ones((), dtype=dtype)), root[0])


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
