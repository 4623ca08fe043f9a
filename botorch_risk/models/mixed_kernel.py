r"""A kernel for inputs with categories, which need not be coded."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.models.kernels import CategoricalKernel
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, ScaleKernel


def mixed_kernel(
    num_inputs: int,
    cat_dims: Sequence[int],
    *,
    batch_shape: torch.Size | None = None,
    scaled: bool = True,
) -> Kernel:
    r"""Sums and products of a kernel of ordered inputs and one of categories.

        k(x, x') = s_1 (k_o + s_2 k_c) + s_3 k_o k_c

    with BoTorch's default kernel k_o of the ordered columns and its `CategoricalKernel` k_c, as in
    its `MixedSingleTaskGP`: the sum shares what categories have in common, the product learns what
    they have not. A category may be coded by any numbers. Models with it are fitted and evaluated
    by GPyTorch, not in closed form; `one_hot_inputs` keeps the fast path.

    Args:
        num_inputs: The number of inputs, d.
        cat_dims: The columns of categories.
        batch_shape: Of the model.
        scaled: Whether the scales s are learnt. Without them it is `k_o k_c`: for the noise process
            of a `MeanVarianceGP`, on which a learnt scale collapses.

    Returns:
        The kernel.

    Raises:
        ValueError: If a column does not exist, comes twice, or there is none.

    Example:
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.tensor([[0.1, 0], [0.4, 1], [0.8, 0], [0.9, 1]], dtype=torch.double)
        >>> model = MeanVarianceGP(
        ...     train_X,
        ...     torch.rand(4, 3, dtype=torch.double),
        ...     covar_module=mixed_kernel(2, [1]),
        ...     noise_covar_module=mixed_kernel(2, [1], scaled=False),
        ... )
        >>> model.posterior(train_X).mean.shape
        torch.Size([4, 1])
    """
    shape = torch.Size() if batch_shape is None else batch_shape
    columns = [dim % num_inputs for dim in cat_dims if -num_inputs <= dim < num_inputs]
    if len(columns) != len(cat_dims) or len(set(columns)) != len(columns) or not columns:
        raise ValueError(
            f"Expected `cat_dims` to be different columns of {num_inputs}. Got {cat_dims}."
        )
    ordered = [dim for dim in range(num_inputs) if dim not in columns]

    def of_categories() -> Kernel:
        return CategoricalKernel(
            batch_shape=shape,
            ard_num_dims=len(columns),
            active_dims=columns,
            lengthscale_constraint=GreaterThan(1e-6),
        )

    def of_ordered() -> Kernel:
        return get_covar_module_with_dim_scaled_prior(
            ard_num_dims=len(ordered), batch_shape=shape, active_dims=ordered
        )

    if not ordered:
        return ScaleKernel(of_categories(), batch_shape=shape) if scaled else of_categories()
    product = of_ordered() * of_categories()
    if not scaled:
        return product
    total = of_ordered() + ScaleKernel(of_categories(), batch_shape=shape)
    return ScaleKernel(total, batch_shape=shape) + ScaleKernel(product, batch_shape=shape)
