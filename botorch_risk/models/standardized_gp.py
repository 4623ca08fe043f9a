r"""BoTorch's default model, for outcomes of any scale."""

from __future__ import annotations

from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.models.outcome_scales import StandardDeviationScale


def standardized_gp(train_X: Tensor, train_Y: Tensor, **options: Any) -> SingleTaskGP:
    r"""A `SingleTaskGP` whose outcomes are standardised whatever their units are.

    BoTorch's `Standardize` leaves outcomes with a standard deviation below 1e-8 as they are.

    Args:
        train_X: `batch_shape x n x d` inputs.
        train_Y: `batch_shape x n x 1` outcomes.
        options: Further arguments of `SingleTaskGP`.

    Raises:
        BotorchTensorDimensionError: If the shapes are others, or there is no row or column.
        InputDataError: If a value is not finite, or dtypes differ.

    Example:
        >>> train_X = torch.rand(6, 1, dtype=torch.double)
        >>> model = standardized_gp(train_X, 1e-9 * train_X.sin())
        >>> bool(model.train_targets.std().sub(1).abs() < 1e-9)
        True
    """
    if (
        train_X.dim() < 2
        or train_Y.shape != (*train_X.shape[:-1], 1)
        or 0 in (train_X.shape[-2], train_X.shape[-1])
    ):
        raise BotorchTensorDimensionError(
            "Expected `train_X` of shape `batch_shape x n x d`, with at least one row and column, "
            f"and `train_Y` of shape `batch_shape x n x 1`. Got {train_X.shape=}, {train_Y.shape=}."
        )
    if train_X.dtype != train_Y.dtype or not train_X.is_floating_point():
        raise InputDataError(
            f"Expected one floating-point dtype. Got {train_X.dtype=}, {train_Y.dtype=}."
        )
    for name, values in (("train_X", train_X), ("train_Y", train_Y)):
        if not values.isfinite().all():
            raise InputDataError(f"Expected finite `{name}`. Got NaN values or infinity.")
    train_X, train_Y = train_X.detach(), train_Y.detach()
    scale = StandardDeviationScale(torch.ones_like(train_Y, dtype=torch.bool))
    return SingleTaskGP(train_X, train_Y, outcome_transform=scale, **options)
