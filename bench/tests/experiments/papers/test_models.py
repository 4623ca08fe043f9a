r"""The processes have the kernels, hyperparameters and priors that they claim."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from botorch_risk_bench.experiments.papers import models
from botorch_risk_bench.problems import CoastalTerrain
from gpytorch.kernels import MaternKernel, ScaleKernel

from botorch_risk.engine import fit_exact_gp


def test_known_processes_have_the_kernels_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.random((2, 4, 2)))
    model = models.squared_exponential()(X, X[..., :1], torch.full((2, 4, 1), 1e-4).double())
    squares = (X[1].unsqueeze(-2) - X[1]).square().sum(dim=-1)
    expected = torch.exp(-0.5 * squares / 0.1**2)
    torch.testing.assert_close(model.covar_module(X).to_dense()[1], expected)
    assert (model.mean_module(X) == 0).all()
    model = models.coastal_process()(40 * X, X[..., :1], torch.full((2, 4, 1), 1e-4).double())
    scaled = 40 * X[1] / torch.tensor(models.COAST_LENGTHSCALE).double()
    r = (scaled.unsqueeze(-2) - scaled).square().sum(dim=-1).sqrt()
    expected = 0.2008 * (1 + 5**0.5 * r + 5 / 3 * r**2) * torch.exp(-(5**0.5) * r)
    torch.testing.assert_close(model.covar_module(40 * X).to_dense()[1], expected)
    assert model.mean_module(X).unique().item() == pytest.approx(models.COAST_MEAN)


@pytest.mark.slow
def test_hyperparameters_of_the_coast_are_those_of_its_other_half() -> None:
    east = CoastalTerrain("east")
    X, Y = east.domain[::4], east.values[::4].unsqueeze(-1)
    kernel: Any = ScaleKernel(MaternKernel(2.5, ard_num_dims=2))
    with validate_input_scaling(False):
        noise = torch.full_like(Y, 1e-6)
        model = SingleTaskGP(X, Y, noise, covar_module=kernel, outcome_transform=None)
    kernel.base_kernel.lengthscale = torch.tensor([20.0, 20.0]).double()
    fit_exact_gp(model)
    found = kernel.base_kernel.lengthscale.squeeze(0).tolist()
    assert found == pytest.approx(models.COAST_LENGTHSCALE, rel=1e-2)
    assert kernel.outputscale.item() == pytest.approx(models.COAST_OUTPUTSCALE, rel=2e-2)
    assert model.mean_module.constant.item() == pytest.approx(models.COAST_MEAN, rel=2e-2)


@pytest.mark.parametrize("reading", ["rate", "scale"])
def test_the_model_has_the_kernel_and_the_priors_of_the_paper(reading: Any) -> None:
    X = torch.rand(2, 5, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    model = models.matern_process(X, X.sum(dim=-1, keepdim=True), reading)
    correlation = model.covar_module.base_kernel
    assert isinstance(correlation, MaternKernel)
    assert correlation.nu == 2.5
    assert correlation.lengthscale.shape == (2, 1, 3)
    owners = (correlation, "lengthscale"), (model.covar_module, "outputscale")
    for module, name in (*owners, (model.likelihood.noise_covar, "noise")):
        prior = getattr(module, f"{name}_prior")
        assert prior.concentration.item() == pytest.approx(1e-3 + 1)  # of the logarithm
        assert prior.rate.item() == pytest.approx(10.0 if reading == "rate" else 0.1)
