r"""Check the arguments of a posterior over a finite domain."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_counts, check_rows, first_wrong
from botorch_risk.engine.posterior.belief import Belief
from botorch_risk.points import as_points, check_points


def check_model(model: Any, posterior_transform: PosteriorTransform | None = None) -> None:
    r"""Raise UnsupportedError unless the model has a closed form and a batch shape [] or [R]."""
    if not Belief.serves(model, posterior_transform) or len(model.batch_shape) > 1:
        raise UnsupportedError(
            "Expected a `SingleTaskGP` with one output, or a subclass with the same `forward` and "
            "`posterior`, a linear `posterior_transform` if any, and a batch shape of [] or [R]. "
            f"Got {type(model).__name__}, {model.num_outputs=}, {model.batch_shape=}."
        )


class Units(NamedTuple):
    r"""An affine map from the units of the data to the units after a scalarization.

    A noise variance is multiplied by the square of `weight`.
    """

    offset: float = 0.0
    weight: float = 1.0

    @classmethod
    def of(cls, posterior_transform: Any) -> Units:
        r"""The units after a transform; the identity without one."""
        if posterior_transform is None:
            return cls()
        units = cls(float(posterior_transform.offset), float(posterior_transform.weights))
        if not (math.isfinite(units.weight) and units.weight != 0 and math.isfinite(units.offset)):
            raise ValueError(
                "Expected a `posterior_transform` with a finite weight that is not 0. "
                f"Got weight={units.weight}, offset={units.offset}."
            )
        return units

    @property
    def noise_factor(self) -> float:
        return self.weight**2

    def apply(
        self, y: float | Tensor | None, noise: float | Tensor | None, like: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        r"""An outcome and its noise variance after the transform, in the dtype of `like`."""
        options: Any = {"dtype": like.dtype, "device": like.device}
        return (
            None if y is None else self.offset + self.weight * torch.as_tensor(y, **options),
            None if noise is None else self.noise_factor * torch.as_tensor(noise, **options),
        )


def checked_index(index: int | Tensor, batch: int, domain: Tensor) -> Tensor:
    r"""Rows of the domain, `batch` of them; fractions and invalid rows are refused."""
    rows = torch.as_tensor(index, device=domain.device)
    if rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool:
        raise InputDataError(f"Expected integers as `index`. Got {index}.")
    if rows.numel() not in (1, batch):
        raise BotorchTensorDimensionError(
            f"Expected one `index`, or one for each of {batch} replicates. Got {rows.shape}."
        )
    if not bool((fits := (rows >= 0) & (rows < domain.shape[-2])).all()):
        wrong = first_wrong(rows, fits)
        raise InputDataError(f"Expected `index` in [0, {domain.shape[-2]}). Got {wrong}.")
    return rows.reshape(-1).expand(batch).long()


def checked_point(X: Tensor, batch_shape: torch.Size, domain: Tensor) -> Tensor:
    r"""One point for each replicate, `B x 1 x d`, without a graph and in the domain's dtype."""
    X, dims, d = as_floating(X, "X"), len(batch_shape), domain.shape[-1]
    shape = X.shape
    if X.dim() == dims + 2 and X.shape[-2] == 1:  # a selection of one point
        X = X.squeeze(-2)
    fits = X.dim() in (1, dims + 1) and X.shape[-1] == d
    if not fits or X.shape[:-1] not in ((), (1,), batch_shape):
        raise BotorchTensorDimensionError(
            f"Expected `X` to be one point: {d} values, `batch_shape x {d}` or `batch_shape x 1 x "
            f"{d}`. Got {tuple(shape)}, batch_shape={tuple(batch_shape)}."
        )
    if not (finite := X.isfinite()).all():
        raise InputDataError(f"Expected finite `X`. Got {first_wrong(X, finite)}.")
    return X.detach().to(domain).expand(*batch_shape, d).reshape(-1, 1, d)


def checked_points_of_each(X: Tensor, batch_shape: torch.Size, domain: Tensor) -> Tensor:
    r"""Several points for each replicate, `B x b x d`, checked as in `checked_point`."""
    X, d = as_floating(X, "X"), domain.shape[-1]
    if X.shape[:-2] != batch_shape or X.dim() < 2 or X.shape[-1] != d:
        raise BotorchTensorDimensionError(
            f"Expected points `X: batch_shape x b x {d}`. "
            f"Got {tuple(X.shape)}, batch_shape={tuple(batch_shape)}."
        )
    check_rows("X", X, "d")
    return X.detach().to(domain).reshape(batch_shape.numel(), -1, d)


def checked_domain(domain: Tensor, model: Any) -> Tensor:
    r"""A copy of a domain's points in a floating-point dtype, without a graph."""
    domain = as_points(domain, model)
    check_domain(domain, model.batch_shape)
    check_points("domain", domain, model)
    return domain.detach().clone()


def check_domain(domain: Tensor, batch_shape: torch.Size) -> None:
    r"""Refuse a domain without points, of another shape or not finite."""
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
    if (observed := as_tensor("observed", observed)) is None:
        return torch.ones_like(targets, dtype=torch.bool)
    if observed.shape != targets.shape or observed.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `observed` to be a boolean mask of shape `{tuple(targets.shape)}`. "
            f"Got {observed.shape=}, {observed.dtype=}."
        )
    return observed.detach().clone()


def check_noise(noise: Tensor, prior_variance: Tensor) -> None:
    r"""Refuse noise variances that are negative, not finite or too small for float32."""
    if not bool((fits := noise.isfinite() & (noise >= 0)).all()):
        raise ValueError(f"Expected finite noise variances >= 0. Got {first_wrong(noise, fits)}.")
    if noise.dtype == torch.float32:
        # With 100 points the pivots of a factor are off by 1e-5 of the prior variance in float32:
        # less noise than this would be rounding.
        ratio = float(noise.min() / prior_variance.max())
        if ratio < 1e-4:
            raise InputDataError(
                "Expected float64 for noise below 1e-4 of the prior variance. Got float32 and a "
                f"ratio of {ratio:.1e}."
            )


def guard_memory(batch: int, domain: Tensor, max_bytes: int) -> None:
    r"""Raise UnsupportedError if a dense covariance does not fit; warn if it is a large part."""
    size, item = domain.shape[-2], domain.element_size()
    needed = batch * size * size * item
    check_counts(max_bytes=max_bytes)
    message = (
        f"Expected a dense covariance of at most {max_bytes:,} bytes. It needs "
        f"{needed:,} bytes ({batch} x {size} x {size} x {item}). Pass `dense=False`, which "
        f"makes rows on demand and holds {batch * size * item:,} bytes per observation."
    )
    if needed > max_bytes:
        raise UnsupportedError(message)
    if needed > max_bytes // 4:
        warnings.warn(message, UserInputWarning, stacklevel=3)


def of_each(name: str, value: float | Tensor, shape: tuple[int, int], like: Tensor) -> Tensor:
    r"""Numbers `B x b` in the dtype of `like`, from one for all or one for each."""
    tensor, (batch, _) = torch.as_tensor(value, dtype=like.dtype, device=like.device), shape
    if tensor.numel() == 1:
        return tensor.detach().reshape(1, 1).expand(shape)
    if tensor.numel() != math.prod(shape):
        raise BotorchTensorDimensionError(
            f"Expected one `{name}`, or one for each of {batch} replicates. Got {tensor.shape}."
        )
    return tensor.detach().reshape(shape)
