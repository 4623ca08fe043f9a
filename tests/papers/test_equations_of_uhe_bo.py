r"""Equations of UHE-BO against scipy and a solve."""

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import GammaPrior
from scipy.stats import gamma, multivariate_normal

from botorch_risk.fit import PseudoDataMarginalLogLikelihood, fit_pseudo_data
from tests import oracles

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def model_of(X: np.ndarray, y: np.ndarray) -> SingleTaskGP:
    r"""A squared exponential of variance 1 with priors of its lengthscales and its noise."""
    constraint = GreaterThan(1e-6)
    model = SingleTaskGP(
        torch.from_numpy(X),
        torch.from_numpy(y).unsqueeze(-1),
        likelihood=GaussianLikelihood(GammaPrior(1.1, 5.0), noise_constraint=constraint),
        covar_module=RBFKernel(ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0)),
        outcome_transform=None,
    ).double()
    model.covar_module.lengthscale = torch.tensor([0.4, 0.6], dtype=torch.double)
    model.likelihood.noise = 0.05
    model.mean_module.constant.data.fill_(0.3)
    return model


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((9, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=9)


def test_the_loss_is_the_density_of_the_outcomes_times_the_prior() -> None:
    r"""Eqs. (9) and (10), with the data themselves as points."""
    X, y = data()
    model = model_of(X, y)
    points = torch.from_numpy(X)
    mll = PseudoDataMarginalLogLikelihood(model.likelihood, model, BOUNDS, seeds=0, points=points)
    model.train()
    found = mll(model(*model.train_inputs), model.train_targets).item() * len(X)

    scale = np.array([0.4, 0.6])
    squares = (((X[:, None] - X) / scale) ** 2).sum(axis=-1)
    covariance = np.exp(-0.5 * squares) + 0.05 * np.eye(9)
    likelihood = multivariate_normal(np.full(9, 0.3), covariance).logpdf(y)  # Eq. (9)
    prior = gamma(3.0, scale=1 / 6).logpdf(scale).sum() + gamma(1.1, scale=1 / 5).logpdf(0.05)
    assert found == pytest.approx(likelihood + prior, rel=1e-7)  # Eq. (10)
    assert abs(prior) > 0.1


def test_predictions_use_the_data_and_the_fit_of_pseudo_data() -> None:
    r"""Eq. (3)."""
    X, y = data()
    model = model_of(X, y)
    fit_pseudo_data(model, BOUNDS, seeds=0)
    scale = model.covar_module.lengthscale.detach().numpy()[0]
    assert not np.allclose(scale, [0.4, 0.6], rtol=1e-2)
    noise = np.full(9, model.likelihood.noise.item())
    constant = model.mean_module.constant.item()
    points = np.random.default_rng(1).random((5, 2))
    mean, variance = oracles.gp_posterior(points, X, y, noise, scale, constant)
    posterior = model.posterior(torch.from_numpy(points))
    np.testing.assert_allclose(posterior.mean.detach().squeeze(-1), mean, rtol=1e-6)
    np.testing.assert_allclose(posterior.variance.detach().squeeze(-1), variance, rtol=1e-6)
