r"""Checks of the arguments of a posterior over a finite domain."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from torch import Tensor

from botorch_risk.models.marginals import has_closed_form


def check_model(model: Any, posterior_transform: PosteriorTransform | None) -> None:
    r"""Raises UnsupportedError unless the model is an exact GP with one output."""
    if not has_closed_form(model, posterior_transform) or len(model.batch_shape) > 1:
        raise UnsupportedError(
            "Expected an exact GP with one output, a linear `posterior_transform` if any, and a "
            f"batch shape of [] or [R]. Got {type(model).__name__}, {model.num_outputs=}, "
            f"{model.batch_shape=}."
        )


def check_domain(domain: Tensor, batch_shape: torch.Size) -> None:
    r"""Refuses a domain without points, of another shape or not finite."""
    shapes = (torch.Size(), batch_shape)
    if domain.dim() < 2 or domain.shape[:-2] not in shapes or 0 in domain.shape:
        raise BotorchTensorDimensionError(
            "Expected `domain` to have shape `|D| x d` or `batch_shape x |D| x d`, with at least "
            f"one point. Got {domain.shape=}, {batch_shape=}."
        )
    if not domain.isfinite().all():
        raise InputDataError("Expected a finite `domain`. Got NaN or infinity.")


def check_observed(observed: Tensor | None, model: Any) -> Tensor:
    r"""The mask of the rows of the model's data that are samples, `batch_shape x n`."""
    targets = model.train_targets
    if observed is None:
        return torch.ones_like(targets, dtype=torch.bool)
    if observed.shape != targets.shape or observed.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `observed` to be a boolean mask of shape `{tuple(targets.shape)}`. "
            f"Got {observed.shape=}, {observed.dtype=}."
        )
    return observed.detach().clone()


def check_noise(noise: Tensor, prior_variance: Tensor) -> None:
    r"""Refuses noise variances that are negative, not finite or too small for float32."""
    if not bool((noise.isfinite() & (noise >= 0)).all()):
        raise ValueError(f"Expected finite noise variances >= 0. Got {noise.tolist()}.")
    if noise.dtype == torch.float32:
        ratio = float(noise.min() / prior_variance.max())
        if ratio < 1e-4:
            raise InputDataError(
                "Expected float64 for noise below 1e-4 of the prior variance. Got float32 and a "
                f"ratio of {ratio:.1e}."
            )


def guard_memory(batch: int, domain: Tensor, max_bytes: int) -> None:
    r"""Raises UnsupportedError if a dense covariance does not fit."""
    size, item = domain.shape[-2], domain.element_size()
    needed = batch * size * size * item
    if needed > max_bytes:
        raise UnsupportedError(
            f"Expected a dense covariance of at most {max_bytes:,} bytes. It needs "
            f"{needed:,} bytes ({batch} x {size} x {size} x {item}). Pass `dense=False`, which "
            f"makes rows on demand from {batch * size * item:,} bytes an observation."
        )


def per_replicate(name: str, value: float | Tensor, batch: int, like: Tensor) -> Tensor:
    r"""A number, or one for each replicate, as `batch` numbers of the dtype of `like`."""
    tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if tensor.numel() not in (1, batch):
        raise BotorchTensorDimensionError(
            f"Expected one `{name}`, or one for each of {batch} replicates. Got {tensor.shape}."
        )
    return tensor.detach().reshape(-1).expand(batch)
