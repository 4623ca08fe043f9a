r"""Checks of the columns and the dtype of points against the inputs of a model."""

from __future__ import annotations

from typing import Any

from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.gpytorch import MultiTaskGPyTorchModel
from botorch.models.model import Model
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Normalize,
    NumericToCategoricalEncoding,
)
from gpytorch.models import ExactGP
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor


def input_widths(model: Model) -> tuple[int, ...] | None:
    r"""How many columns the inputs of a model may have; `None` where only the model knows.

    A multi-task model takes points with or without the column of the task. A transform to
    several points may add columns, so that the training data do not show them.
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


def original_inputs(model: Any) -> Tensor:
    r"""The training inputs of an exact GP before its input transform."""
    inputs: Tensor = model.train_inputs[0]
    if not model._has_transformed_inputs:
        return inputs
    original: Tensor = model._original_train_inputs
    # BoTorch's `subset_output` leaves the inputs of all outcomes, which are equal.
    return original if original.dim() == inputs.dim() else original[..., 0, :, :]


def keeps_apart(transform: InputTransform | None, d_w: int) -> bool:
    r"""Whether the last columns of what a transform returns are w, scaled by itself."""
    if transform is None or type(transform) is Normalize:
        return True
    if type(transform) is not ChainedInputTransform:
        return False
    first, *rest = transform.values()
    return (
        type(first) is NumericToCategoricalEncoding
        and max(first.ordinal_idx) < len(first.ordinal_idx) + len(first.numerical_idx) - d_w
        and all(type(part) is Normalize for part in rest)
    )


def check_points(name: str, X: Tensor, model: Model) -> None:
    r"""Raises unless points `batch_shape x m x d` have the columns of the model's inputs.

    Without the check a single column would broadcast to all of them, without an error.

    Raises:
        BotorchTensorDimensionError: If the shape does not fit.
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
    data = exact.train_inputs if isinstance(exact, ExactGP) else None
    X = as_floating(X, "X")
    return X.to(data[0].dtype) if data else X
