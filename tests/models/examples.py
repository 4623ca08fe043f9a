r"""Small experiments with repeats, and models of them with given hyperparameters."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.models import MeanVarianceGP


def repeats(n=10, k=4, d=2, batch_shape=(), dtype=torch.double):
    r"""Inputs in the unit cube and repeats whose noise grows with the first input."""
    X = torch.rand(*batch_shape, n, d, dtype=torch.double)
    f = 3 + 2 * (5 * X).sin().sum(dim=-1, keepdim=True)
    Y = f + (0.1 + 0.5 * X[..., :1]) * torch.randn(*batch_shape, n, k, dtype=torch.double)
    return X.to(dtype), Y.to(dtype)


def with_missing(Y):
    r"""The repeats with two rows of one repeat and one row of two."""
    Y = Y.clone()
    Y[..., 0, 1:] = torch.nan
    Y[..., 4, :-1] = torch.nan
    Y[..., 2, 2:] = torch.nan
    return Y


def matern(d=2, batch_shape=()):
    shape = torch.Size(batch_shape)
    base = MaternKernel(nu=2.5, ard_num_dims=d, batch_shape=shape)
    return ScaleKernel(base, batch_shape=shape).double()


def set_process(model, lengthscale, outputscale, constant):
    r"""Writes hyperparameters into a model with a `matern` kernel and a constant mean."""
    model.covar_module.base_kernel.lengthscale = torch.as_tensor(lengthscale, dtype=torch.double)
    model.covar_module.outputscale = torch.as_tensor(outputscale, dtype=torch.double)
    model.mean_module.constant.data.fill_(constant)


def small_model(n=10, k=4, d=2, batch_shape=(), **options):
    r"""A model that has not been fitted."""
    X, Y = repeats(n, k, d, batch_shape)
    return MeanVarianceGP(X, Y, **options)


UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
SHAPES = [(), (2,), (2, 3)]
UNSCALED = pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
SPREAD = {"noise_evidence": "spread"}
IDENTITY = {"variance_link": "identity", "min_noise_variance": 1e-3}


def points(*shape):
    return torch.rand(*shape, 2, dtype=torch.double)


def fit(model, **options):
    return fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), **options)


def noise_in_use(model):
    r"""The noise of the means that the mean process works with, in the units of the outcome."""
    noise = model.likelihood.noise.unsqueeze(-1)
    transform = model.mean_model._modules.get("outcome_transform")
    return noise if transform is None else noise * transform.stdvs.square()


def everything(model, X):
    r"""All that a model says at some points."""
    posterior, noise = model.posterior(X), model.noise_posterior(X)
    moments = [m for p in (posterior, noise) for m in (p.mean, p.variance)]
    bounds = [*model.confidence_bounds(X, 4.0), *model.noise_confidence_bounds(X, 4.0)]
    predicted = model.posterior(X, observation_noise=True).variance
    return [*moments, *bounds, predicted, model.predicted_noise(X)]


def assert_same(first, second, X, **tolerance):
    for a, b in zip(everything(first, X), everything(second, X), strict=True):
        torch.testing.assert_close(a, b, **tolerance)
