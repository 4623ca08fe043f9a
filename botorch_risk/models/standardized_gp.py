r"""BoTorch's default model, for outcomes of any scale."""

from __future__ import annotations

from typing import Any

import torch
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

    Example:
        >>> train_X = torch.rand(6, 1, dtype=torch.double)
        >>> model = standardized_gp(train_X, 1e-9 * train_X.sin())
        >>> bool(model.train_targets.std().sub(1).abs() < 1e-9)
        True
    """
    scale = StandardDeviationScale(torch.ones_like(train_Y, dtype=torch.bool))
    return SingleTaskGP(train_X, train_Y, outcome_transform=scale, **options)
