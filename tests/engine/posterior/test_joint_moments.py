r"""The joint posterior within groups of points."""

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Log, Normalize, Standardize
from gpytorch.kernels import MaternKernel, PeriodicKernel
from torch import Tensor

from botorch_risk.engine import Belief
from botorch_risk.engine.posterior.joint_moments import _of_posterior
from botorch_risk.matrices import safe_root
from botorch_risk.models import MeanVarianceGP


def data(*batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(*batch, 9, 2, generator=generator, dtype=torch.double)
    return X, 3 + 2 * (5 * X).sin().sum(dim=-1, keepdim=True)


def build(kind: str, *batch: int) -> SingleTaskGP:
    X, Y = data(*batch)
    options = {
        "default": {},
        "units": {"input_transform": Normalize(2), "outcome_transform": Standardize(1)},
        "matern": {"covar_module": MaternKernel(ard_num_dims=2, batch_shape=torch.Size(batch))},
        "periodic": {"covar_module": PeriodicKernel(batch_shape=torch.Size(batch))},
        "known noise": {"train_Yvar": torch.linspace(0.1, 0.3, 9).double()[:, None].expand_as(Y)},
    }[kind]
    if kind == "units" and batch:
        options = {
            "input_transform": Normalize(2, batch_shape=torch.Size(batch)),
            "outcome_transform": Standardize(1, batch_shape=torch.Size(batch)),
        }
    return SingleTaskGP(X, Y, **options).eval()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("kind", ["default", "units", "matern", "periodic", "known noise"])
def test_it_is_the_posterior_of_the_model(kind: str, batch: tuple[int, ...]) -> None:
    model = build(kind, *batch)
    X = torch.rand(*batch, 4, 5, 2, dtype=torch.double)
    found = Belief(model).joint().moments(X)
    with torch.no_grad():
        for group in range(4):
            expected = model.posterior(X[..., group, :, :])
            noisy = model.posterior(X[..., group, :, :], observation_noise=True)
            torch.testing.assert_close(found.mean[..., group, :], expected.mean.squeeze(-1))
            covariance = expected.distribution.covariance_matrix
            torch.testing.assert_close(
                found.covariance[..., group, :, :], covariance, atol=1e-7, rtol=1e-6
            )
            noise = (noisy.variance - expected.variance).squeeze(-1)
            torch.testing.assert_close(found.noise[..., group, :], noise, atol=1e-7, rtol=1e-6)
    by_botorch = _of_posterior(model, X, None)
    for one, two in zip(found, by_botorch, strict=True):
        torch.testing.assert_close(one, two, atol=1e-7, rtol=1e-6)


def test_a_model_that_learns_its_noise_has_the_noise_of_each_point() -> None:
    X = torch.linspace(0, 1, 8, dtype=torch.double)[:, None]
    Y = X + (0.1 + X) * torch.randn(8, 6, dtype=torch.double)
    model = MeanVarianceGP(X, Y)
    found = Belief(model).joint().moments(torch.tensor([[[0.05], [0.95]]], dtype=torch.double))
    assert found.covariance.shape == (1, 2, 2)
    assert found.noise[0, 1] > found.noise[0, 0] > 0


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not")
def test_a_posterior_that_is_not_normal_is_refused() -> None:
    X, Y = data()
    model = SingleTaskGP(X, Y, outcome_transform=Log())
    with pytest.raises(UnsupportedError, match="posterior is Gaussian"):
        Belief(model).joint().moments(X[None])


def test_a_root_of_a_covariance_that_is_singular_but_for_rounding() -> None:
    column = torch.linspace(1, 2, 6, dtype=torch.double)[:, None]
    root = safe_root(column @ column.T, torch.ones((), dtype=torch.double))
    torch.testing.assert_close(root @ root.T, column @ column.T, atol=1e-6, rtol=1e-6)
