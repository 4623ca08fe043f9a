r"""The kernels that both processes have where a user gives none."""

from __future__ import annotations

import math

import torch
from botorch.models.transforms.input import AppendFeatures
from gpytorch.kernels import MaternKernel, RBFKernel

from botorch_risk.fit import fit_exact_gp
from botorch_risk.fit.parameters import read_exact_gp
from botorch_risk.models import MeanVarianceGP, one_hot_inputs
from botorch_risk.models.fixed_noise import mean_kernel, noise_kernel
from botorch_risk.posterior.kernels import StationaryKernel
from tests.contracts import RepeatedData


def test_is_the_default_of_the_model_and_known_to_the_fast_paths():
    data = RepeatedData.make(batch_shape=(3,))
    kernel = MeanVarianceGP(data.X, data.Y).covar_module
    assert type(kernel.base_kernel) is MaternKernel and kernel.base_kernel.nu == 2.5
    torch.testing.assert_close(kernel.outputscale, torch.ones(3, dtype=torch.double))
    assert StationaryKernel.of(kernel) is not None
    model = MeanVarianceGP(data.X, data.Y)
    names = [one.name for one in read_exact_gp(model.mean_model).hyperparameters]
    assert names == ["lengthscale", "outputscale", "constant"]


def test_has_botorchs_priors():
    kernel = mean_kernel(torch.rand(9, 4))
    lengthscale, scale = kernel.base_kernel.lengthscale_prior, kernel.outputscale_prior
    assert math.isclose(lengthscale.loc.item(), math.sqrt(2) + math.log(4) / 2, rel_tol=1e-6)
    assert (scale.concentration.item(), round(scale.rate.item(), 6)) == (2.0, 0.15)


def test_counts_the_columns_that_a_transform_makes():
    features = AppendFeatures(torch.rand(1, 2), transform_on_train=True)
    assert mean_kernel(torch.rand(9, 3), features).base_kernel.ard_num_dims == 5
    assert noise_kernel(torch.rand(9, 3), features).ard_num_dims == 5


def test_one_hot_categories_have_a_lengthscale_each_in_both_processes():
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.double)
    X = torch.tensor([[0.1, 0], [0.4, 1], [0.8, 2], [0.9, 1]], dtype=torch.double)
    Y = X[:, :1] + torch.randn(4, 3, dtype=torch.double)
    for link in ("log", "identity"):
        transform = one_hot_inputs(bounds, [1])
        model = MeanVarianceGP(X, Y, variance_link=link, input_transform=transform)
        assert model.covar_module.base_kernel.lengthscale.shape == (1, 4)
        assert model.noise_model.covar_module.lengthscale.shape == (1, 4)
        assert model.posterior(X).mean.shape == model.predicted_noise(X).shape == (4, 1)


def test_a_kernel_of_the_user_is_kept():
    data, own = RepeatedData.make(), RBFKernel()
    assert MeanVarianceGP(data.X, data.Y, covar_module=own).covar_module is own


def test_a_slope_is_given_more_variance_than_its_means_have():
    X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
    Y = 5 * X + 0.01 * torch.randn(12, 4, generator=torch.Generator().manual_seed(0)).double()
    model = MeanVarianceGP(X, Y)
    model.fit_processes(lambda process: not fit_exact_gp(process).has_failed)
    assert model.covar_module.outputscale.item() > 1.5
