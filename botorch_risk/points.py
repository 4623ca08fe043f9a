r"""BoTorch's t-batches, turned into further points of each replicate.

BoTorch's optimisers evaluate b candidates as `b x batch_shape x 1 x d`: one point for each of b
copies of the model. If points do not interact, the same values come from `batch_shape x b x d`,
with the factors of one model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.gpytorch import MultiTaskGPyTorchModel
from botorch.models.model import Model
from botorch.models.transforms import input as transforms
from gpytorch.models import ExactGP, IndependentModelList
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_nonnegative
from botorch_risk.steady import sent


def joint_shape(first: torch.Size | None, second: torch.Size | None) -> torch.Size:
    r"""The broadcast of two batch shapes; PyTorch's own function costs many operations.

    `None`, which some of BoTorch's deterministic models have, means no batch.
    """
    first, second = first or torch.Size(), second or torch.Size()
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    if longer[len(longer) - len(shorter) :] == shorter:
        return longer
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    sizes = [b if a == 1 else a for a, b in zip(longer, padded, strict=True)]
    if all(b in (1, size) for b, size in zip(padded, sizes, strict=True)):
        return torch.Size(sizes)
    return torch.broadcast_shapes(first, second)  # which says what does not match


@dataclass(frozen=True)
class TBatch:
    r"""Reshapes points of any batch shape to points of the replicates of a model, and back.

    Attributes:
        shape: The batch shape of the points, broadcast with the model's.
        dims: The number of leading dimensions of the t-batch.
        num_points: The number m of points in each entry.
    """

    shape: torch.Size
    dims: int
    num_points: int

    @classmethod
    def of(cls, X: Tensor, batch_shape: torch.Size) -> TBatch:
        r"""The t-batch of points `... x m x d`, where `...` broadcasts with `batch_shape`."""
        m = X.shape[-2]
        if not batch_shape:
            return cls(X.shape[:-2], X.dim() - 2, m)
        if X.shape[:-2] == batch_shape:
            return cls(batch_shape, 0, m)
        shape = joint_shape(X.shape[:-2], batch_shape)
        dims = len(shape) - len(batch_shape)
        # A replicate that is broadcast itself has no points of its own to add to.
        return cls(shape, dims if shape[dims:] == batch_shape else 0, m)

    def fold(self, X: Tensor) -> Tensor:
        r"""Points `batch_shape x (t-batch m) x d`; shared points are repeated per replicate."""
        if X.shape[:-2] != self.shape:
            X = X.expand(*self.shape, *X.shape[-2:])
        if self.dims == 0:
            return X
        if self.dims == len(self.shape):  # of one model
            return X.flatten(0, -2)
        X = X.movedim(tuple(range(self.dims)), tuple(range(-2 - self.dims, -2)))
        return X.flatten(-2 - self.dims, -2)

    def unfold(self, values: Tensor, points_dim: int = -1) -> Tensor:
        r"""Values `t-batch x batch_shape x m x ...` from values at folded points.

        `points_dim` is their dimension, counted from the end.
        """
        if self.dims == 0:
            return values
        if self.dims == len(self.shape):
            return values.unflatten(points_dim, (*self.shape, self.num_points))
        values = values.unflatten(points_dim, (*self.shape[: self.dims], self.num_points))
        first = points_dim - self.dims
        return values.movedim(tuple(range(first, points_dim)), tuple(range(self.dims)))


def input_widths(model: Model) -> tuple[int, ...] | None:
    r"""The possible numbers of input columns of a model; `None` if only the model knows.

    A multi-task model accepts points with or without the column of the task. A transform that
    expands one point to several may add columns that the training data lack.
    """
    # A model that learns the noise too takes the inputs of its mean process.
    process: Any = model._modules.get("mean_model", model)
    kind = type(process)  # of which no static type says what its modules have
    if issubclass(kind, MultiTaskGPyTorchModel):
        return process.num_non_task_features, process.num_non_task_features + 1
    if not issubclass(kind, ExactGP) or process.train_inputs is None:
        return None
    transform = process._modules.get("input_transform")
    if transform is not None and (transform.is_one_to_many or not transform.transform_on_train):
        return None
    return (int(original_inputs(process).shape[-1]),)


def check_made_inputs(widths: Sequence[int] | None, made: int) -> None:
    r"""Raise unless decisions and environment combine to inputs of a width that the model accepts.

    `input_widths` gives the widths.
    """
    if widths is not None and made not in widths:
        wanted = " or ".join(map(str, widths))
        raise BotorchTensorDimensionError(
            f"Expected decisions and environment to make the {wanted} inputs of the model. "
            f"Got {made}."
        )


def original_inputs(model: Any) -> Tensor:
    r"""The training inputs of an exact GP before its input transform, in its batch shape."""
    model = model._modules.get("mean_model", model)  # of a model that learns the noise too
    inputs: Tensor = model.train_inputs[0]
    if not model._has_transformed_inputs:
        return inputs
    original: Tensor = model._original_train_inputs
    batch = inputs.shape[:-2]
    if original.shape[:-2] == batch:
        return original
    dims = original.dim() - 2
    if dims > len(batch) or original.shape[:-2] != batch[len(batch) - dims :]:
        # BoTorch's `subset_output` leaves the inputs of all outcomes, which are equal.
        original = original[..., 0, :, :]
    return original.expand(*batch, *original.shape[-2:])  # fantasies at points that all share


def scales_columns(transform: Any) -> bool:
    r"""Whether a transform only shifts and scales the columns of its inputs at prediction."""
    return (
        type(transform) is transforms.Normalize
        and not hasattr(transform, "indices")
        and transform.transform_on_eval
        and not transform.reverse
    )


def keeps_apart(transform: transforms.InputTransform | None, d_w: int) -> bool:
    r"""Whether the last columns of a transform's output are w, scaled separately."""
    if transform is None or type(transform) is transforms.Normalize:
        return True
    if type(transform) is not transforms.ChainedInputTransform:
        return False
    first, *rest = transform.values()
    return (
        type(first) is transforms.NumericToCategoricalEncoding
        and max(first.ordinal_idx) < len(first.ordinal_idx) + len(first.numerical_idx) - d_w
        and all(type(part) is transforms.Normalize for part in rest)
    )


def put_in_mode(model: Any, training: bool) -> Any:
    r"""Put a model into training or evaluation mode if it is not: a switch visits every module."""
    return model if model.training == training else model.train(training)


@contextmanager
def coefficients_kept(model: Model) -> Iterator[None]:
    r"""Keep an input transform from learning its range from points other than the data."""
    transform = getattr(model, "input_transform", None)
    learning = [
        part
        for part in (() if transform is None else transform.modules())
        if isinstance(part, transforms.AffineInputTransform) and part.learn_coefficients
    ]
    for part in learning:
        part.learn_coefficients = False
    try:
        yield
    finally:
        for part in learning:
            part.learn_coefficients = True


def check_points(name: str, X: Tensor, model: Model) -> None:
    r"""Raise unless points `batch_shape x m x d` have the columns of the model's inputs.

    Without the check, a single column would silently broadcast to all of them.
    """
    X = as_tensor(name, X)
    if X.dim() < 2:
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to have shape `batch_shape x m x d`. Got {tuple(X.shape)}."
        )
    widths = input_widths(model)
    if widths is not None and X.shape[-1] not in widths:
        columns = " or ".join(str(width) for width in widths)
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to have the {columns} columns of the model's inputs. "
            f"Got {tuple(X.shape)}."
        )


def as_points(X: Tensor, model: Model) -> Tensor:
    r"""Points in the dtype of the model's data; without data, whole numbers become float64."""
    exact: Any = model._modules.get("mean_model", model)
    if isinstance(exact, IndependentModelList):
        exact = exact.models[0]
    data = exact.train_inputs if isinstance(exact, ExactGP) else None
    X = as_floating(X, "X")
    return X.to(data[0].dtype) if data else X


def checked_points(X: Tensor, model: Model, name: str = "X") -> Tensor:
    r"""Points that passed `check_points`, in the dtype of the model's data."""
    check_points(name, X, model)
    return as_points(X, model)


def root_of_beta(beta: float | Tensor, mean: Tensor, batch_shape: torch.Size) -> Tensor:
    r"""The number of standard deviations of a bound, broadcastable to `mean: batch_shape x m`.

    The squared width is one number, one per replicate (`batch_shape` of the model), or one per
    point (`batch_shape x m`). A negative number is refused; the entries of a tensor are not
    checked.
    """
    if isinstance(beta, int | float):
        check_nonnegative(beta=beta)
    beta = sent(as_floating(beta, "beta"), mean.device).to(mean.dtype)
    if beta.shape == batch_shape and beta.dim():
        beta = beta.unsqueeze(-1)
    broadcasts = beta.dim() in (0, len(batch_shape) + 1, mean.dim())
    if not broadcasts or any(
        size not in (1, full)
        for size, full in zip(beta.shape[::-1], mean.shape[::-1], strict=False)
    ):
        raise BotorchTensorDimensionError(
            "Expected `beta` to be a number, or to have shape `batch_shape` or `batch_shape x m`. "
            f"Got {beta.shape=}, batch_shape={tuple(batch_shape)}, m={mean.shape[-1]}."
        )
    return beta.sqrt()


def come_again(X: Tensor) -> Tensor:
    r"""Whether each row of `batch_shape x n x d` equals an earlier row of its sequence."""
    codes = X.flatten(0, -2).unique(dim=0, return_inverse=True)[1].reshape(X.shape[:-1])
    ordered, order = codes.sort(dim=-1, stable=True)
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    return torch.zeros_like(again).scatter(-1, order, again)
