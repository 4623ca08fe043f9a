r"""BoTorch's default model, for outcomes of any scale."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from botorch.models.transforms import input as transforms
from torch import Tensor

from botorch_risk.arguments import as_floating, check_bounds, in_short
from botorch_risk.models.outcome_scales import StandardDeviationScale
from botorch_risk.models.renewed import has_room, remember_beginning, renew


def standardized_gp(train_X: Tensor, train_Y: Tensor, **options: Any) -> SingleTaskGP:
    r"""A `SingleTaskGP` whose outcomes are standardised whatever their units are.

    BoTorch's `Standardize` does not scale outcomes with a standard deviation below 1e-8. Inputs are
    `batch_shape x n x d`, outcomes `batch_shape x n x 1`; options go to `SingleTaskGP`.
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
    train_X, train_Y = train_X.detach(), train_Y.detach()
    if train_X.device.type != "cpu" and options.keys() <= {"input_transform"}:
        return _built_on_host(train_X, train_Y, **options)
    _check_finite(train_X, train_Y)
    scale = StandardDeviationScale(torch.ones_like(train_Y, dtype=torch.bool))
    model = SingleTaskGP(train_X, train_Y, outcome_transform=scale, **options)
    if options.keys() <= {"input_transform"}:
        remember_beginning(model)
    return model


def renewed_standardized_gp(
    previous: Any,
    train_X: Tensor,
    train_Y: Tensor,
    input_transform: transforms.InputTransform | None = None,
) -> SingleTaskGP:
    r"""A `standardized_gp` that reuses the modules of a previous one if only the rows differ.

    The previous one is overwritten. Without one, or with other columns, a new model is built.
    """
    if not (isinstance(previous, SingleTaskGP) and has_room(previous, train_X, input_transform)):
        options = {} if input_transform is None else {"input_transform": input_transform}
        return standardized_gp(train_X, train_Y, **options)
    train_X, train_Y = train_X.detach(), train_Y.detach()
    _check_finite(train_X, train_Y)
    scale = StandardDeviationScale(torch.ones_like(train_Y, dtype=torch.bool))
    renew(previous, train_X, train_Y, scale)
    return previous


def _check_finite(train_X: Tensor, train_Y: Tensor) -> None:
    values = {"train_X": train_X, "train_Y": train_Y}
    # One transfer for both: each look at a value on a device waits for it.
    looks = torch.stack([each.isfinite().all() for each in values.values()]).tolist()
    for name, is_finite in zip(values, looks, strict=True):
        if not is_finite:
            raise InputDataError(f"Expected finite `{name}`. Got NaN values or infinity.")


def _built_on_host(
    X: Tensor, Y: Tensor, input_transform: transforms.InputTransform | None = None
) -> SingleTaskGP:
    r"""Build the model on the host, whose checks do not wait, and move it to the device.

    BoTorch looks at the data and uploads each parameter separately: 21 waits instead of one.
    """
    seen = X
    if input_transform is not None:
        with torch.no_grad():
            seen = input_transform.to(X)(X)
    inputs, outcomes = torch.cat([seen, Y], dim=-1).cpu().split([seen.shape[-1], 1], dim=-1)
    model: Any = standardized_gp(inputs, outcomes).to(X.device, non_blocking=True)
    if input_transform is not None:
        # Set after the move, with the inputs of the user: the host saw the transformed ones.
        model.input_transform = input_transform
    model.set_train_data(X, strict=False)
    remember_beginning(model)
    return model


def one_hot_inputs(
    bounds: Tensor, categories: Sequence[int] | Mapping[int, Sequence[float]] = ()
) -> transforms.InputTransform:
    r"""An input transform to the unit cube, with one column for each value of a category.

    A category is coded by whole numbers, which a kernel would mistake for an order. One-hot columns
    make all values equally far apart, each with a lengthscale of its own
    [GarridoMerchan2020categorical]_. Other columns keep their order, so the environmental
    variable stays in the last ones, and the fast predictors support the transform.

    Args:
        bounds: The lower and the upper bounds of the columns, `2 x d`.
        categories: The columns of categories, whose values are the whole numbers of their bounds;
            or a dictionary from the columns to their values.

    Returns:
        BoTorch's `Normalize`, after `NumericToCategoricalEncoding` if there are categories.

    Example:
        >>> transform = one_hot_inputs(torch.tensor([[0.0, 1.0], [2.0, 3.0]]), categories=[1])
        >>> transform(torch.tensor([[0.5, 2.0]]))
        tensor([[0.2500, 0.0000, 1.0000, 0.0000]])
    """
    bounds = as_floating(bounds, "bounds")
    check_bounds(bounds, may_be_equal=True)
    d = bounds.shape[-1]
    if missing := [column for column in categories if not -d <= column < d]:
        raise InputDataError(f"Expected categories among {d} columns. Got {in_short(missing)}.")
    if not categories:
        return transforms.Normalize(bounds.shape[-1], bounds=bounds)
    named = categories if isinstance(categories, Mapping) else {}
    values = {
        column % d: torch.tensor(named[column]) if named else _whole_numbers(bounds, column)
        for column in categories
    }
    encoding = transforms.NumericToCategoricalEncoding(
        dim=bounds.shape[-1],
        categorical_features={column: len(each) for column, each in sorted(values.items())},
        encoders={column: partial(_one_hot, values=each) for column, each in values.items()},
    )
    unit = bounds.new_tensor([[0.0], [1.0]])
    parts = [
        unit.expand(2, len(values[column])) if column in values else bounds[:, [column]]
        for column in range(bounds.shape[-1])
    ]
    box = torch.cat(parts, dim=-1)
    return transforms.ChainedInputTransform(
        one_hot=encoding, unit=transforms.Normalize(box.shape[-1], bounds=box)
    )


def _whole_numbers(bounds: Tensor, column: int) -> Tensor:
    r"""The values of a category whose bounds are its smallest and its largest code."""
    lower, upper = bounds[:, column]
    if lower >= upper or (bounds[:, column] % 1 != 0).any():
        raise InputDataError(
            f"Expected whole bounds of the category in column {column}, the lower one below. "
            f"Got {bounds[:, column].tolist()}."
        )
    return torch.arange(int(lower), int(upper) + 1)


def _one_hot(codes: Tensor, values: Tensor) -> Tensor:
    r"""One column for each value; a code without a value, such as NaN, has a row of zeros."""
    return codes.unsqueeze(-1) == values.to(codes.device)
