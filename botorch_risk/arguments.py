r"""Convert the arrays that users pass to tensors, and check arguments before anything is built.

NaN passes every `if number < limit: raise`, so each check here tests for valid values.
"""

import collections.abc
import functools
import math
import operator
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.steady import expect

# Objects of BoTorch may stand for them in an argument; the code that converts them checks them.
_CONVERTED = ("Environment", "OutcomeConstraint", "RiskConstraint", "RiskMeasure")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def first_index(mask: Tensor) -> tuple[int, ...]:
    r"""The index at which a mask is first true."""
    return tuple(mask.nonzero()[0].tolist())


def first_wrong(values: Tensor, fits: Tensor) -> str:
    r"""The first wrong entry for an error message, with its index if there are several entries."""
    index = first_index(~fits)
    return f"{values[index].item()}{f' at {index}' if index else ''}"


def in_short(value: Any) -> str:
    r"""A value in one line for an error; a tensor, array or list is cut to a few entries."""
    text = _SHORT.repr(value.tolist() if isinstance(value, Tensor | np.ndarray) else value)
    return type(value).__name__ if "\n" in text else text


def check_kind(kind: Any, /, **values: Any) -> None:
    r"""Raise TypeError unless each has this type, or ValueError if the type lists choices."""
    for name, value in values.items():
        if not _is_a(value, kind):
            is_choice = any(get_origin(each) is Literal for each in (kind, *get_args(kind)))
            said = f"Expected `{name}` to be {_in_words(kind)}. Got {in_short(value)}."
            raise ValueError(said) if is_choice else TypeError(said)


def _number(name: str, number: Any) -> float:
    check_kind(float, **{name: number})
    return float(number)


def check_flags(**flags: bool) -> None:
    r"""Raise TypeError unless each is True or False, since any text would count as true."""
    check_kind(bool, **flags)


def check_numbers(**numbers: float) -> None:
    r"""Raise TypeError unless each is a number."""
    check_kind(float, **numbers)


def check_finite(**numbers: float) -> None:
    r"""Raise ValueError unless every number is finite."""
    for name, number in numbers.items():
        if not abs(_number(name, number)) < math.inf:
            raise ValueError(f"Expected a finite `{name}`. Got {number}.")


def check_nonnegative(**numbers: float | Tensor) -> None:
    r"""Raise ValueError unless every number, or entry of a tensor, is finite and >= 0."""
    for name, number in numbers.items():
        values = number
        if not isinstance(values, Tensor):
            values = torch.tensor(_number(name, number), dtype=torch.double, device="cpu")
        if not (fits := (values >= 0) & (values < math.inf)).all():
            wrong = first_wrong(values, fits)
            raise ValueError(f"Expected `{name}` to be finite and >= 0. Got {wrong}.")


def check_positive(**numbers: float) -> None:
    r"""Raise ValueError unless every number is finite and > 0."""
    for name, number in numbers.items():
        if not 0 < _number(name, number) < math.inf:
            raise ValueError(f"Expected `{name}` to be finite and > 0. Got {number}.")


def check_probability(**numbers: float) -> None:
    r"""Raise ValueError unless every number is strictly between 0 and 1."""
    for name, number in numbers.items():
        if not 0 < _number(name, number) < 1:
            raise ValueError(f"Expected `{name}` in (0, 1). Got {name}={number}.")


def check_integers(**numbers: int) -> None:
    r"""Raise ValueError unless every number is an integer of Python, NumPy or a tensor.

    TypeError is raised for anything but a number.
    """
    for name, number in numbers.items():
        if not _is_integer(number):
            error = ValueError if _is_number(number) else TypeError
            raise error(f"Expected `{name}` to be an integer. Got {in_short(number)}.")


def check_counts(least: int = 1, **counts: int) -> None:
    r"""Raise ValueError unless every number is an integer of at least `least`."""
    check_integers(**counts)
    for name, count in counts.items():
        if count < least:
            raise ValueError(f"Expected `{name}` to be at least {least}. Got {count}.")


def check_even(**counts: int) -> None:
    r"""Raise ValueError unless every number is a positive even integer."""
    check_counts(**counts)
    for name, count in counts.items():
        if count % 2:
            raise ValueError(f"Expected an even number for `{name}`. Got {count}.")


def as_tensor(name: str, values: Any) -> Any:
    r"""Convert numbers to a tensor, which is returned unchanged if it is one already.

    Lists become float64, and whole numbers stay whole. `None` stays `None`.
    """
    if isinstance(values, Tensor) and values.is_complex():
        raise TypeError(f"Expected `{name}` to hold real numbers. Got {values.dtype}.")
    if values is None or isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values, order="C")  # torch has no negative strides
        in_frame = array.dtype == object and hasattr(values, "to_numpy")  # such as with holes
        if in_frame and not any(isinstance(each, str) for each in array.flat):
            array = values.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError, RuntimeError):  # rows of several lengths; tensors with a graph
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"Expected `{name}` to be a tensor, or an array or a list of numbers. "
            f"Got {in_short(values)}."
        )
    return torch.tensor(array)


def as_floating(values: Any, name: str = "values") -> Tensor:
    r"""Numbers as a tensor in a floating-point dtype; whole numbers become float64."""
    values = as_tensor(name, values)
    if values is None:
        raise TypeError(
            f"Expected `{name}` to be a tensor, or an array or a list of numbers. Got None."
        )
    return values if values.is_floating_point() else values.double()


def as_data(values: Tensor, name: str = "values") -> Tensor:
    r"""A copy of a user's tensor, without its graph and in floating point."""
    return as_floating(values, name).detach().clone()


def in_order(name: str, values: Any, *axes: Sequence[Any]) -> Any:
    r"""The values of a DataFrame, a Series or a dict as an array, in the order of the given names.

    `axes` are the names of the rows, and of the columns of a DataFrame. Values without names are
    returned unchanged.
    """
    if isinstance(values, Mapping):
        found, array = [[*values]], np.asarray([*values.values()])
    elif hasattr(values, "index") and hasattr(values, "to_numpy"):
        found, array = [[*values.index], [*getattr(values, "columns", ())]], values.to_numpy()
    else:
        return values
    for axis, (names, expected) in enumerate(zip(found[: array.ndim], axes, strict=False)):
        if names == [*expected]:
            continue
        places = {each: place for place, each in enumerate(names)}
        if len(places) < len(names) or places.keys() != {*expected}:
            raise InputDataError(
                f"Expected the names of `{name}` to be {[*expected]}, each once. Got {names}."
            )
        array = array.take([places[each] for each in expected], axis)
    return array


def check_rows(name: str, values: Tensor, columns: str = "d_w") -> None:
    r"""Raise unless values are `batch_shape x n x columns`, finite, and no dimension is empty."""
    if values.dim() < 2 or 0 in values.shape:
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to have shape `batch_shape x n x {columns}`, without an empty "
            f"dimension. Got {tuple(values.shape)}."
        )
    finite = values.isfinite().all(dim=-1)

    def refuse() -> None:
        row = first_index(~finite)
        raise InputDataError(f"Expected finite `{name}`. Got {in_short(values[row])} at {row}.")

    expect(finite.all(), refuse)


def check_bounds(
    bounds: Tensor, d: int | None = None, name: str = "bounds", may_be_equal: bool = False
) -> None:
    r"""Raise unless bounds are a box `2 x d`: finite, each lower one below its upper one."""
    if (
        bounds.dim() != 2
        or bounds.shape[0] != 2
        or not bounds.numel()
        or d not in (None, bounds.shape[1])
    ):
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to have shape `2 x {d or 'd'}`, d >= 1. Got {tuple(bounds.shape)}."
        )

    ordered = bounds[0] <= bounds[1] if may_be_equal else bounds[0] < bounds[1]
    fits = bounds.isfinite().all(dim=0) & ordered

    def refuse() -> None:
        (column,) = first_index(~fits)
        raise ValueError(
            f"Expected finite `{name}` with each lower bound "
            f"{'at most' if may_be_equal else 'below'} its upper bound. "
            f"Got {bounds[:, column].tolist()} in column {column}."
        )

    expect(fits.all(), refuse)


def check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    r"""Raise unless each argument has the type that the signature declares.

    It is called in the first line with the function (or the class of a record) and its `locals()`.
    Environments and risk measures are checked by the code that converts them.
    """
    for name, kind in _kinds(function).items():
        if name in arguments:
            check_kind(kind, **{name: arguments[name]})


def check_fields(record: Any) -> None:
    r"""Check the fields of a record like arguments, for its `__post_init__`."""
    check_arguments(type(record), vars(record))


@functools.cache
def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    kinds = get_type_hints(function)
    kinds.pop("return", None)
    return kinds


def _is_a(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        # Tensors last: a record of tensors is refused with its text, which takes milliseconds.
        return any(_is_a(value, part) for part in sorted(parts, key=lambda part: part is Tensor))
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if origin is collections.abc.Callable:
        return callable(value)
    if origin in _NUMBERS:
        return _NUMBERS[origin](value)
    if origin in (tuple, list, collections.abc.Sequence):
        if isinstance(value, str | Mapping | Iterator) or not hasattr(value, "__iter__"):
            return False
        return all(_is_a(each, parts[0]) for each in value) if parts else True
    if origin is Tensor:
        return _is_tensor(value)
    if kind is Any or not isinstance(origin, type) or origin.__name__ in _CONVERTED:
        return True
    return isinstance(value, origin)


def _is_tensor(value: Any) -> bool:
    if value is None or isinstance(value, str | float | int):
        return False
    try:
        as_tensor("values", value)
    except TypeError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return not isinstance(value, str | bytes)


_NUMBERS: dict[Any, Callable[[Any], bool]] = {
    bool: lambda value: isinstance(value, bool | np.bool_),
    int: _is_integer,
    float: _is_number,
}


def _in_words(kind: Any) -> str:
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(part) for part in parts)
    if origin is Literal:
        return f"one of {parts}"
    if origin is collections.abc.Callable:
        return "a function"
    if origin in (tuple, list, collections.abc.Sequence):
        return f"a sequence, each {_in_words(parts[0])}" if parts else "a sequence"
    if origin is NoneType:
        return "None"
    names = {bool: "True or False", int: "an integer", float: "a number", Tensor: "a tensor"}
    return names.get(origin, f"of type `{getattr(origin, '__name__', origin)}`")
