r"""Describe a strategy's arguments, and tensors, as JSON."""

import base64
import dataclasses
import functools
import hashlib
import math
import reprlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from botorch.exceptions.warnings import UserInputWarning
from torch import Tensor
from torch.nn import Module

_LISTED = 64  # tensors with more entries are described by a digest
_DTYPES = {
    name: getattr(torch, name)
    for name in ("bool", "int64", "float16", "bfloat16", "float32", "float64")
}


def describe(value: Any) -> Any:
    r"""An argument in terms of JSON.

    A record or an object is represented by the name of its class and its parts, a function by its
    name and the arguments that are bound to it, a large tensor by a digest of its values. Nothing
    depends on the module from which something is imported.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        value = torch.tensor(value)
    if isinstance(value, Tensor):
        if value.numel() <= _LISTED:
            return value.tolist()
        return f"{tuple(value.shape)} {value.dtype} ~{_digest(value)}"
    if isinstance(value, Mapping):
        return {str(name): describe(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [describe(part) for part in value]
    if isinstance(value, functools.partial):
        bound = {"args": describe(value.args), **describe(value.keywords)}
        return {**describe(value.func), **bound}
    if callable(value) and hasattr(value, "__name__"):  # a class, too
        return {"function": value.__name__}
    if isinstance(value, Module):
        public = {name: part for name, part in vars(value).items() if not name.startswith("_")}
        parts = {**public, **dict(value.named_parameters()), **dict(value.named_buffers())}
        parts.pop("training")
    elif dataclasses.is_dataclass(value):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    else:
        parts = {name: part for name, part in vars(value).items() if not name.startswith("_")}
    return {"class": type(value).__name__, **describe(parts)}


def check_alike(stored: Any, present: Any, path: tuple[str, ...] = ("arguments",)) -> None:
    r"""Compare two descriptions field by field, allowing for the rounding of another processor.

    Warns:
        UserInputWarning: If a function has another name, perhaps because it was renamed.

    Raises:
        ValueError: If anything else differs.
    """
    are_records = isinstance(stored, Mapping) and isinstance(present, Mapping)
    if are_records and _kind(stored) == _kind(present):
        for name in dict.fromkeys([*stored, *present]):
            check_alike(stored.get(name), present.get(name), (*path, str(name)))
        return
    if isinstance(stored, list) and isinstance(present, list) and len(stored) == len(present):
        for index, pair in enumerate(zip(stored, present, strict=True)):
            check_alike(*pair, (*path[:-1], f"{path[-1]}[{index}]"))
        return
    are_numbers = isinstance(stored, float) and isinstance(present, float)
    if stored == present or (are_numbers and math.isclose(stored, present, rel_tol=1e-6)):
        return
    name, place = path[-1], f" in {'.'.join(path[1:-1])}" if path[2:] else ""
    message = (
        f"Expected {name}={_shown(stored)}, as the state was built with. "
        f"Got {name}={_shown(present)}{place}."
    )
    if name != "function":
        raise ValueError(message)
    warnings.warn(message, UserInputWarning, stacklevel=2)


def _kind(described: Mapping[str, Any]) -> tuple[Any, bool]:
    return described.get("class"), "function" in described


def _shown(described: Any) -> str:
    if isinstance(described, Mapping) and any(_kind(described)):
        return str(described.get("class") or described["function"])
    return repr(described) if isinstance(described, str) else reprlib.repr(described)


def to_json(value: Tensor) -> dict[str, Any]:
    r"""A tensor in terms of JSON, to the last bit."""
    name = str(value.dtype).removeprefix("torch.")
    data = base64.b64encode(_bytes(value)).decode()
    return {"dtype": name, "shape": list(value.shape), "base64": data}


def from_json(value: Mapping[str, Any]) -> Tensor:
    r"""Inverse of `to_json`, on the CPU."""
    try:
        dtype, shape = _DTYPES[value["dtype"]], list(value["shape"])
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        data = bytearray(base64.b64decode(value["base64"], validate=True))
        return torch.frombuffer(data, dtype=dtype).reshape(shape)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Expected a tensor as dtype, shape and base64. Got {reprlib.repr(value)}."
        ) from error


def _digest(value: Tensor) -> str:
    r"""A digest of the values to six digits, since the last bits differ between processors."""
    mantissa, exponent = value.detach().cpu().double().frexp()
    rounded = torch.ldexp((mantissa * 2**20).round(), exponent - 20)
    return hashlib.blake2b(_bytes(rounded), digest_size=8).hexdigest()


def _bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().flatten()
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
