r"""Checks of the arguments that acquisition functions share."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model, ModelList
from torch import Tensor
from torch.nn import Module

from botorch_risk.models.heteroscedastic import MeanVarianceGP


def require_mean_variance_gp(model: Model) -> None:
    r"""Raises UnsupportedError unless the model learns, or knows, its noise."""
    if not isinstance(model, MeanVarianceGP):
        raise UnsupportedError(
            f"Expected a MeanVarianceGP, which knows its noise. Got {type(model).__name__}."
        )


def select_mean_variance_gp(
    model: Model, posterior_transform: PosteriorTransform | None
) -> tuple[MeanVarianceGP, PosteriorTransform | None]:
    r"""The model whose mean and noise are weighed, and the transform of its one output.

    Args:
        model: A `MeanVarianceGP`, or a `ModelListGP` from which the transform selects one.
        posterior_transform: For a list, a `ScalarizedPosteriorTransform` with one weight that is
            not 0.

    Raises:
        UnsupportedError: If no model, or more than one, is selected, or it is no MeanVarianceGP.
    """
    if not isinstance(model, ModelList):
        require_mean_variance_gp(model)
        return model, posterior_transform  # type: ignore[return-value]
    if type(posterior_transform) is not ScalarizedPosteriorTransform:
        raise UnsupportedError(
            "Expected a `ScalarizedPosteriorTransform` that selects one output of a list of "
            f"models. Got {type(posterior_transform).__name__}."
        )
    weights: Any = posterior_transform.weights
    chosen = weights.nonzero().flatten().tolist()
    models: Any = model.models
    if len(chosen) != 1 or any(part.num_outputs != 1 for part in models):
        raise UnsupportedError(
            "Expected one weight that is not 0, over models of one output each: the noise of a sum "
            f"is not modelled. Got {weights=}, {model.num_outputs=}."
        )
    selected = models[chosen[0]]
    require_mean_variance_gp(selected)
    transform = ScalarizedPosteriorTransform(weights[chosen], posterior_transform.offset)
    return selected, transform


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
