r"""Checks of the arguments that acquisition functions share."""

from __future__ import annotations

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module

from botorch_risk.models.heteroscedastic import MeanVarianceGP


def require_mean_variance_gp(model: Model) -> None:
    r"""Raises UnsupportedError unless the model learns, or knows, its noise."""
    if not isinstance(model, MeanVarianceGP):
        raise UnsupportedError(
            f"Expected a MeanVarianceGP, which knows its noise. Got {type(model).__name__}."
        )


def as_nonnegative(name: str, value: float | Tensor) -> Tensor:
    r"""A finite weight >= 0 as a double-precision tensor; raises ValueError otherwise."""
    tensor = torch.as_tensor(value, dtype=torch.double)
    if not (tensor.isfinite().all() and (tensor >= 0).all()):
        raise ValueError(f"Expected `{name}` to be finite and >= 0. Got {value}.")
    return tensor


def register_weights(module: Module, **weights: float | Tensor) -> None:
    r"""Keeps finite weights >= 0 as buffers of an acquisition function."""
    for name, value in weights.items():
        module.register_buffer(name, as_nonnegative(name, value))


def per_point(weight: Tensor, X: Tensor) -> Tensor:
    r"""A weight, one for all or one per replicate, broadcastable to `batch_shape x m`."""
    if not X.is_floating_point():  # a weight is not to be cut off to a whole number
        X = X.double()
    return weight.to(X).unsqueeze(-1) if weight.dim() else weight.to(X)
