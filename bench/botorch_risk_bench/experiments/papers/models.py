r"""The Gaussian processes that the papers' experiments prescribe."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_gaussian_likelihood_with_gamma_prior,
    get_matern_kernel_with_gamma_prior,
)
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.fit import set_gamma_priors
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.test_functions.gaussian_process_samples import LENGTHSCALE
from botorch_risk_bench.baselines.published_v_ucb import LENGTHSCALES, VARIANCES

# From points `R x n x d`, outcomes and variances of the noise `R x n x 1`.
ModelBuilder = Callable[[Tensor, Tensor, Tensor | None], SingleTaskGP]

# Maximum likelihood of a Matern-5/2 kernel and a constant mean on every fourth point of the
# map's east half, as the paper does on its second data set: km, km, km^2, km.
COAST_LENGTHSCALE, COAST_OUTPUTSCALE, COAST_MEAN = (24.52, 24.56), 0.2008, 0.4283


def known_process(
    kernel: Kernel, mean: float, X: Tensor, Y: Tensor, noise: Tensor | None
) -> SingleTaskGP:
    r"""A GP with known hyperparameters, of batch shape `[R]` for `R x n x d` points.

    Args:
        X: `R x n x d`.
        Y: `R x n x 1`.
        noise: `R x n x 1` variances.
    """
    with validate_input_scaling(False):  # the kernel is in the units of the data
        model = SingleTaskGP(
            X, Y, noise, covar_module=kernel.expand_batch(X.shape[:-2]), outcome_transform=None
        ).to(X)
    model.mean_module.initialize(constant=mean)
    return model.requires_grad_(False)


def squared_exponential(lengthscale: float = LENGTHSCALE) -> ModelBuilder:
    r"""The builder of zero-mean processes with a unit-variance kernel."""
    kernel = RBFKernel().double()
    kernel.lengthscale = lengthscale
    return partial(known_process, kernel, 0.0)


def coastal_process() -> ModelBuilder:
    r"""The builder of processes with the hyperparameters of the map's other half."""
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)).double()
    kernel.base_kernel.lengthscale = torch.tensor(COAST_LENGTHSCALE, dtype=torch.double)
    kernel.outputscale = COAST_OUTPUTSCALE
    return partial(known_process, kernel, COAST_MEAN)


def learnt_process(X: Tensor, Y: Tensor, noise: Tensor | None) -> SingleTaskGP:
    r"""A Matern-5/2 ARD process with hyperparameters fitted to its data.

    By maximum a posteriori with BoTorch's priors: the likelihood that [Bogunovic2016truvar]_
    maximises may have no maximum for the first three points.
    """
    kernel = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=X.shape[-1], batch_shape=X.shape[:-2], use_rbf_kernel=False
    )
    model = SingleTaskGP(X, Y, noise, covar_module=kernel)
    fit_exact_gp(model)
    return model


def likeliest_process(X: Tensor, Y: Tensor, noise: Tensor | None) -> SingleTaskGP:
    r"""A Matern-5/2 ARD process with the hyperparameters of maximum likelihood.

    As in [Bogunovic2016truvar]_, Sec. 4, which states no ranges: ours are the same as for V-UCB by
    maximum likelihood, for inputs in [0, 1] and standardised outcomes.
    """
    shape = X.shape[:-2]
    correlation = MaternKernel(
        nu=2.5, ard_num_dims=X.shape[-1], batch_shape=shape, lengthscale_constraint=LENGTHSCALES
    )
    kernel = ScaleKernel(correlation, batch_shape=shape, outputscale_constraint=VARIANCES)
    model = SingleTaskGP(X, Y, noise, covar_module=kernel)
    fit_exact_gp(model)
    return model


def matern_process(
    X: Tensor, Y: Tensor, reading: Literal["rate", "scale"] = "scale"
) -> SingleTaskGP:
    r"""UHE-BO's model: a Matern-5/2 ARD kernel with a variance, Gamma priors on all three.

    [Ha2023uhe]_ does not say whether its process has a mean: a constant here, of standardised
    outcomes.

    Args:
        X: Inputs on the unit cube, `... x n x d`.
        Y: Outcomes, `... x n x 1`.
        reading: What the second parameter of the priors is; see `set_gamma_priors`.
    """
    shape = X.shape[:-2]
    correlation = MaternKernel(nu=2.5, ard_num_dims=X.shape[-1], batch_shape=shape)
    kernel = ScaleKernel(correlation, batch_shape=shape)
    return set_gamma_priors(SingleTaskGP(X, Y, covar_module=kernel).to(X), reading=reading)


def default_of_2023(X: Tensor, Y: Tensor, input_transform: InputTransform) -> SingleTaskGP:
    r"""BoTorch's default model in 2023, on which the programs of that time ran.

    A Matern-5/2 ARD kernel with a variance, Gamma(3, 6) on lengthscales, Gamma(2, 0.15) on the
    variance and Gamma(1.1, 0.05) on the noise, of standardised outcomes.

    Args:
        X: Inputs, `... x n x d`.
        Y: Outcomes, `... x n x 1`.
        input_transform: Maps the inputs to the unit cube.
    """
    shape = X.shape[:-2]
    return standardized_gp(
        X,
        Y,
        input_transform=input_transform,
        covar_module=get_matern_kernel_with_gamma_prior(
            ard_num_dims=input_transform(X).shape[-1], batch_shape=shape
        ),
        likelihood=get_gaussian_likelihood_with_gamma_prior(batch_shape=shape),
    )
