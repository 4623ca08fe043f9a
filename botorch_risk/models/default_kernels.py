r"""Kernels of the processes of mean and noise, where a user gives none."""

from __future__ import annotations

import copy

import torch
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.priors import GammaPrior
from torch import Tensor


def mean_kernel(train_X: Tensor, input_transform: InputTransform | None = None) -> ScaleKernel:
    r"""A Matern 5/2 kernel with an output scale, and BoTorch's priors on both.

    The lengthscales have BoTorch's dimension-scaled prior, the output scale BoTorch's
    Gamma(2, 0.15). BoTorch's default, a squared-exponential kernel without an output scale, is
    too sure where a function is not smooth, and makes larger errors where the function varies more
    or less than the means do: `bench/studies/learnt_noise`.

    Args:
        train_X: `batch_shape x n x d` inputs.
        input_transform: Applied to the inputs before the kernel sees them.

    Example:
        >>> kernel = mean_kernel(torch.rand(2, 9, 3))
        >>> kernel.outputscale.shape, kernel.base_kernel.lengthscale.shape
        (torch.Size([2]), torch.Size([2, 1, 3]))
    """
    batch_shape = train_X.shape[:-2]
    matern = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=_num_columns(train_X, input_transform),
        batch_shape=batch_shape,
        use_rbf_kernel=False,
    )
    prior = GammaPrior(2.0, 0.15)
    kernel = ScaleKernel(matern, batch_shape=batch_shape, outputscale_prior=prior)
    kernel.outputscale = torch.ones(batch_shape)
    return kernel


def noise_kernel(train_X: Tensor, input_transform: InputTransform | None = None) -> Kernel:
    r"""BoTorch's default kernel; an output scale of the noise process collapses.

    Args:
        train_X: `batch_shape x n x d` inputs.
        input_transform: Applied to the inputs before the kernel sees them.

    Example:
        >>> noise_kernel(torch.rand(2, 9, 3)).lengthscale.shape
        torch.Size([2, 1, 3])
    """
    return get_covar_module_with_dim_scaled_prior(
        ard_num_dims=_num_columns(train_X, input_transform), batch_shape=train_X.shape[:-2]
    )


@torch.no_grad()
def _num_columns(train_X: Tensor, input_transform: InputTransform | None) -> int:
    r"""How many columns the transform makes of the inputs; one-hot columns are more than one."""
    if input_transform is None:
        return train_X.shape[-1]
    return copy.deepcopy(input_transform).to(train_X)(train_X).shape[-1]
