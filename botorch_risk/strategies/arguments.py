r"""What a strategy was built with, as JSON, and tensors as JSON."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

_LISTED = 64  # tensors with more entries are described by a digest
# The modules in the name of a part of this project, up to its class, function or outer function.
_MODULES = re.compile(r"^botorch_risk(?:_bench)?\.(?:[a-z]\w*\.)*(?=\w+(?:$|\.<locals>)|_*[A-Z])")


def public_name(part: type | Callable[..., Any]) -> str:
    r"""Name a class or a function for a file that outlives this version.

    A part of this project goes by its own name, without the module where it is kept, so that what
    was stored is read after a module has moved. Other parts have their full name.

    Example:
        >>> from botorch_risk.risk import ValueAtRisk
        >>> public_name(ValueAtRisk), public_name(Module)
        ('botorch_risk.ValueAtRisk', 'torch.nn.modules.module.Module')
    """
    name: str = as_today(f"{part.__module__}.{part.__qualname__}")
    return name


def as_today(description: Any) -> Any:
    r"""A stored name or description with the names of our parts as `public_name` gives them today.

    An older version named them by their modules.

    Example:
        >>> as_today({"class": "botorch_risk.strategies.acquire.Acquire"})
        {'class': 'botorch_risk.Acquire'}
    """
    if isinstance(description, str):
        return _MODULES.sub("botorch_risk.", description)
    if isinstance(description, Mapping):
        return {key: as_today(part) for key, part in description.items()}
    return list(map(as_today, description)) if isinstance(description, list) else description


def describe(value: Any) -> Any:
    r"""What an argument is, in terms of JSON.

    A record or an object is its class and its parts, a function its qualified name, a large tensor
    the digest of its values.

    Example:
        >>> describe({"beta": 4.0, "bounds": torch.tensor([[0.0], [1.0]])})
        {'beta': 4.0, 'bounds': [[0.0], [1.0]]}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        if value.numel() <= _LISTED:
            return value.tolist()
        digest = hashlib.blake2b(_bytes(value), digest_size=8).hexdigest()
        return f"{tuple(value.shape)} {value.dtype} {digest}"
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
    r"""Where two descriptions differ first, in words; None if they are equal.

    Names that an older version stored count as today's.

    Example:
        >>> difference({"beta": 4.0}, {"beta": 7.0})
        'Expected beta=4.0. Got beta=7.0.'
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in dict.fromkeys([*expected, *found]):
            first = difference(expected.get(key), found.get(key), str(key))
            if first is not None:
                return first
        return None
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        expected, found = list(expected), list(found)
    if as_today(expected) == as_today(found):
        return None
    return f"Expected {name}={expected!r}. Got {name}={found!r}."


def to_json(value: Tensor) -> dict[str, Any]:
    r"""A tensor in terms of JSON, to the last bit.

    Example:
        >>> from_json(to_json(torch.tensor([0.1, float("nan")])))
        tensor([0.1000,    nan])
    """
    name = str(value.dtype).removeprefix("torch.")
    data = base64.b64encode(_bytes(value)).decode()
    return {"dtype": name, "shape": list(value.shape), "base64": data}


def from_json(value: Mapping[str, Any]) -> Tensor:
    r"""Inverse of `to_json`, on the CPU."""
    dtype, shape = getattr(torch, value["dtype"]), list(value["shape"])
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    data = bytearray(base64.b64decode(value["base64"]))
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def _bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().flatten()
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
