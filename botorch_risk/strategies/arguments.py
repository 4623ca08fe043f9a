r"""Describe a strategy's arguments, and tensors, as JSON."""

import base64
import dataclasses
import functools
import hashlib
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

# The modules in the name of a part of this project, up to its class, function or outer function.
_MODULES = re.compile(r"^botorch_risk(?:_bench)?\.(?:[a-z]\w*\.)*(?=\w+(?:$|\.<locals>)|_*[A-Z])")
_LISTED = 64  # tensors with more entries are described by a digest
_DTYPES = {
    name: getattr(torch, name)
    for name in ("bool", "int64", "float16", "bfloat16", "float32", "float64")
}


def public_name(part: type | Callable[..., Any]) -> str:
    r"""Name a class or a function for a file that outlives this version.

    A part of this project is stored under its own name without the module, so that files stay
    readable after a module has moved. Other parts are stored under their full name.

    Example:
        >>> from botorch_risk.risk import ValueAtRisk
        >>> public_name(ValueAtRisk), public_name(Module)
        ('botorch_risk.ValueAtRisk', 'torch.nn.modules.module.Module')
    """
    return _MODULES.sub("botorch_risk.", f"{part.__module__}.{part.__qualname__}")


def describe(value: Any) -> Any:
    r"""An argument in terms of JSON.

    A record or an object is its class and its parts, a function its qualified name, a large tensor
    the digest of its values.
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
        named = dict(value.keywords)
        return {"function": describe(value.func), "args": describe(value.args), **describe(named)}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return public_name(value)
    if isinstance(value, Module):
        public = {name: part for name, part in vars(value).items() if not name.startswith("_")}
        parts = {**public, **dict(value.named_parameters()), **dict(value.named_buffers())}
        parts.pop("training")
    elif dataclasses.is_dataclass(value):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    else:
        parts = {name: part for name, part in vars(value).items() if not name.startswith("_")}
    return {"class": public_name(type(value)), **describe(parts)}


def difference(expected: Any, found: Any, name: str = "arguments") -> str | None:
    r"""The first difference of two descriptions, in words; None if they are equal."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in dict.fromkeys([*expected, *found]):
            first = difference(expected.get(key), found.get(key), str(key))
            if first is not None:
                return first
        return None
    if _is_equal(expected, found):
        return None
    return f"Expected {name}={expected!r}. Got {name}={found!r}."


def _is_equal(expected: Any, found: Any) -> bool:
    r"""Whether two values are equal up to the rounding of another processor."""
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_is_equal, expected, found))
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return difference(expected, found) is None
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-6) or expected == found
    return bool(expected == found)


def to_json(value: Tensor) -> dict[str, Any]:
    r"""A tensor in terms of JSON, to the last bit."""
    name = str(value.dtype).removeprefix("torch.")
    data = base64.b64encode(_bytes(value)).decode()
    return {"dtype": name, "shape": list(value.shape), "base64": data}


def from_json(value: Mapping[str, Any]) -> Tensor:
    r"""Inverse of `to_json`, on the CPU.

    Raises:
        ValueError: If it is not what `to_json` gives.
    """
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
