r"""The loss as a function of tensors, with padded data, against the loss of the same rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.priors import GammaPrior, HalfCauchyPrior, LogNormalPrior, NormalPrior
from torch import Size, Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.engine.fit.likelihood_form import PADDED_TO
from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.sample.hyperparameters import ExactLogPosterior
from tests.devices import home
from tests.engine.fit.examples import data
from tests.engine.recorders import make_recorder

R, N = 3, PADDED_TO + 5
BATCH = Size([R])


def plain(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(X, Y)


def noise_is_known(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(X, Y, 0.01 + 0.05 * X[..., :1])


def constant_has_a_prior(X: Tensor, Y: Tensor) -> SingleTaskGP:
    mean = ConstantMean(NormalPrior(0.2, 0.5), batch_shape=BATCH)
    return SingleTaskGP(X, 20 + 3 * Y, mean_module=mean.to(X), outcome_transform=None)


def constant_is_sought(X: Tensor, Y: Tensor) -> SingleTaskGP:
    mean = ConstantMean(GammaPrior(3.0, 6.0), batch_shape=BATCH).initialize(constant=4.0)
    return SingleTaskGP(X, 4 + Y, mean_module=mean.to(X), outcome_transform=None)


def matern(X: Tensor, Y: Tensor) -> SingleTaskGP:
    base = MaternKernel(1.5, ard_num_dims=2, batch_shape=BATCH, lengthscale_prior=GammaPrior(3, 6))
    kernel = ScaleKernel(base, LogNormalPrior(0.0, 1.0), batch_shape=BATCH)
    return SingleTaskGP(X, Y, covar_module=kernel.to(X), mean_module=ZeroMean())


MODELS = [plain, noise_is_known, constant_has_a_prior, constant_is_sought, matern]


@pytest.mark.every_device
@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
@pytest.mark.parametrize("kind", [MarginalLikelihoodObjective, ExactLogPosterior])
@pytest.mark.parametrize("build", MODELS)
@pytest.mark.parametrize("is_masked", [False, True])
def test_it_is_the_loss_of_the_same_rows(
    kind: Any,
    build: Callable[[Tensor, Tensor], SingleTaskGP],
    is_masked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_recorder(home(), monkeypatch)
    X, Y = (each.to(home()) for each in data(R, n=N))
    observed = torch.arange(N).remainder(torch.tensor([[9], [7], [99]])) > 0
    objective = kind.of(build(X, Y).train(), observed.to(home()) if is_masked else None)
    rows = np.array([0, 1, 2, 4, 5])
    theta = objective.own()[rows % R]
    theta += np.random.default_rng(0).normal(0.0, 0.3, theta.shape)
    portable = objective.portable(rows)
    assert portable is not None
    assert portable.given[0].shape[-2] == 2 * PADDED_TO  # padded
    found = portable(torch.as_tensor(theta).to(home()), rows)
    for one, other in zip(found, objective(theta, rows), strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-11, atol=1e-12)


def test_without_a_device_and_for_other_priors_it_stays_on_the_host(device: torch.device) -> None:
    X, Y = (each.to(device) for each in data(R, n=8))
    rows = np.arange(R)
    model = plain(X, Y)
    assert (MarginalLikelihoodObjective.of(model).portable(rows) is None) == (device.type == "cpu")
    model.covar_module.register_prior(
        "prior of another kind", HalfCauchyPrior(torch.tensor(0.8).to(X)), "lengthscale"
    )
    assert MarginalLikelihoodObjective.of(model).portable(rows) is None


def test_a_replicate_that_cannot_be_fitted_leaves_the_others(device: torch.device) -> None:
    X, Y = (each.to(device) for each in data(R, n=12))
    model, alone = plain(X, Y), plain(X[2], Y[2])
    model.train_targets[1, 3] = torch.nan
    result = fit_exact_gp(model)
    assert [status.value for status in result.status] == ["converged", "failed", "converged"]
    fit_exact_gp(alone)
    torch.testing.assert_close(
        model.covar_module.lengthscale[2], alone.covar_module.lengthscale, rtol=1e-5, atol=0.0
    )
