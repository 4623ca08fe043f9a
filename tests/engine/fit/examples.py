r"""Data and models to fit, on standardised and on raw outcomes."""

import math
from collections.abc import Callable

import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_gaussian_likelihood_with_gamma_prior,
    get_matern_kernel_with_gamma_prior,
)
from gpytorch.constraints import Interval, Positive
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import NormalPrior
from torch import Tensor

Builder = Callable[[Tensor, Tensor], SingleTaskGP]


def data(*batch_shape: int, n: int = 15, d: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(*batch_shape, n, d, generator=generator, dtype=torch.float64)
    noise = torch.randn(*batch_shape, n, 1, generator=generator, dtype=torch.float64)
    return X, (5 * X).sin().sum(-1, keepdim=True) + 0.1 * noise


def objective(model: SingleTaskGP) -> Tensor:
    mll = ExactMarginalLogLikelihood(model.likelihood, model).train()
    with torch.no_grad():
        inputs = [model.transform_inputs(X) for X in model.train_inputs]
        value = mll(model(*model.train_inputs), model.train_targets, *inputs)
    model.eval()
    return value


def scaled_matern(X: Tensor, Y: Tensor) -> SingleTaskGP:
    batch_shape = X.shape[:-2]
    return SingleTaskGP(
        X,
        Y,
        covar_module=get_matern_kernel_with_gamma_prior(X.shape[-1], batch_shape),
        likelihood=get_gaussian_likelihood_with_gamma_prior(batch_shape),
    )


def without_priors(X: Tensor, Y: Tensor) -> SingleTaskGP:
    batch_shape = X.shape[:-2]
    kernel = MaternKernel(ard_num_dims=2, batch_shape=batch_shape)
    likelihood = GaussianLikelihood(noise_constraint=Positive(), batch_shape=batch_shape)
    kernel = ScaleKernel(kernel, batch_shape=batch_shape)
    return SingleTaskGP(X, Y, covar_module=kernel, likelihood=likelihood, outcome_transform=None)


def raw(build: Callable[..., SingleTaskGP]) -> Builder:
    return lambda X, Y: build(X, Y, outcome_transform=None)


def lognormal_scaled(X: Tensor, Y: Tensor) -> SingleTaskGP:
    batch_shape = X.shape[:-2]
    kernel = get_covar_module_with_dim_scaled_prior(X.shape[-1], batch_shape)
    kernel = ScaleKernel(kernel, batch_shape=batch_shape)
    return SingleTaskGP(X, Y, covar_module=kernel, outcome_transform=None)


def constant_mean(**options: object) -> Builder:
    def build(X: Tensor, Y: Tensor) -> SingleTaskGP:
        mean = ConstantMean(batch_shape=X.shape[:-2], **options)
        return SingleTaskGP(X, Y, mean_module=mean, outcome_transform=None)

    return build


RAW: dict[str, Builder] = {
    "default": raw(SingleTaskGP),
    "fixed noise": lambda X, Y: SingleTaskGP(
        X, Y, 0.01 * Y.var(dim=-2, keepdim=True).expand_as(Y), outcome_transform=None
    ),
    "scaled": lognormal_scaled,
    "without priors": without_priors,
    "zero mean": lambda X, Y: SingleTaskGP(X, Y, mean_module=ZeroMean(), outcome_transform=None),
    "normal prior on the mean": constant_mean(constant_prior=NormalPrior(0.0, 1.0)),
    "mean within bounds": constant_mean(constant_constraint=Interval(-1.0, 2e3)),
}


def fit_by_botorch(model: SingleTaskGP) -> Tensor:
    r"""Its objective, or minus infinity where it gives up."""
    try:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    except ModelFittingError:
        return torch.tensor(-math.inf)
    return objective(model)
