r"""A Gaussian process whose priors fit functions on a unit cube."""

import math
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.priors import LogNormalPrior, NormalPrior
from torch import Tensor

from botorch_risk.arguments import as_floating, in_short
from botorch_risk.models.standardized_gp import standardized_gp

# The prior of a lengthscale on the unit cube, of its logarithm: median and standard deviation.
_MEDIAN_LENGTHSCALE, _SPREAD = 0.5, 1.0
_LEAST_LENGTHSCALE = 2.5e-2  # as in BoTorch
_SMOOTHNESS = (0.5, 1.5, 2.5, math.inf)
# Of the logarithm of the output scale. Readings of a function that grows towards an edge of the
# cube vary less than the function does: 6.9 is found on Branin, from 40 d + 40 readings.
_SPREAD_SCALE = 2.0


def scaled_gp(
    train_X: Tensor,
    train_Y: Tensor,
    *,
    input_transform: InputTransform | None = None,
    nu: float = 2.5,
) -> SingleTaskGP:
    r"""A `standardized_gp` with Matern-5/2 kernel, learnt output scale and shorter lengthscales.

        outputscale ~ LogNormal(0, 2),   lengthscale ~ LogNormal(log 0.5, 1),   constant ~ N(0, 1)

    and BoTorch's prior of the noise, `LogNormal(-4, 1)`, in standard deviations of the outcome.
    The median lengthscale of BoTorch's own prior is 5.8 in two dimensions, and its output scale is
    fixed; from 40 d + 40 readings of functions on a unit cube, one learns 0.4. The prior is for
    samples of the hyperparameters (`sample_exact_gp`): a fit to few readings overfits under it.

    Args:
        train_X: `batch_shape x n x d` inputs, in the unit cube after the transform.
        train_Y: `batch_shape x n x 1` outcomes in any unit.
        input_transform: Maps the inputs to the unit cube.
        nu: The smoothness of the Matern kernel, 0.5, 1.5 or 2.5; `math.inf` for the squared
            exponential, its limit.

    Example:
        >>> model = scaled_gp(torch.rand(9, 2).double(), torch.rand(9, 1).double())
        >>> model.covar_module.base_kernel.lengthscale.detach()
        tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    train_X, train_Y = as_floating(train_X, "train_X"), as_floating(train_Y, "train_Y")
    parts = kernel_and_mean(train_X, input_transform, nu)
    return standardized_gp(train_X, train_Y, input_transform=input_transform, **parts)


def kernel_and_mean(
    train_X: Tensor, input_transform: InputTransform | None, nu: float = 2.5
) -> dict[str, Any]:
    r"""The modules of `scaled_gp` with their priors, as arguments of `SingleTaskGP`."""
    batch_shape, columns = train_X.shape[:-2], train_X.shape[-1]
    if input_transform is not None:
        with torch.no_grad():
            # One row suffices to count columns, such as one-hot ones.
            columns = input_transform.to(train_X)(train_X[..., :1, :]).shape[-1]
    options: dict[str, Any] = {
        "ard_num_dims": columns,
        "batch_shape": batch_shape,
        "lengthscale_prior": LogNormalPrior(math.log(_MEDIAN_LENGTHSCALE), _SPREAD),
        "lengthscale_constraint": GreaterThan(
            _LEAST_LENGTHSCALE, None, initial_value=_MEDIAN_LENGTHSCALE
        ),
    }
    if nu not in _SMOOTHNESS:
        raise ValueError(f"Expected `nu` to be one of {_SMOOTHNESS}. Got {in_short(nu)}.")
    kernel = RBFKernel(**options) if nu == math.inf else MaternKernel(nu=nu, **options)
    scaled = ScaleKernel(kernel, LogNormalPrior(0.0, _SPREAD_SCALE), batch_shape=batch_shape)
    # GPyTorch starts at log(2); targets have unit variance.
    scaled.outputscale = 1.0
    mean = ConstantMean(NormalPrior(0.0, 1.0), batch_shape=batch_shape)
    return {"covar_module": scaled.to(train_X), "mean_module": mean.to(train_X)}
