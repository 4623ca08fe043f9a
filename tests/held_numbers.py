r"""The numbers that an object holds, however deep, so that two objects can be compared."""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_PACKAGES = ("botorch_risk", "botorch_risk_bench", "botorch", "gpytorch", "torch")
_SIMPLE = bool | int | float | np.ndarray | np.generic | Tensor


def held_numbers(value: Any) -> dict[str, Tensor]:
    r"""Every number, array and tensor below a value, by the way to it."""
    return dict(_held(value, "", set()))


def _held(value: Any, way: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, _SIMPLE):
        if not (isinstance(value, np.ndarray) and value.dtype.kind not in "biuf"):
            yield way, torch.as_tensor(value).detach().cpu().double()
        return
    if value is None or isinstance(value, str | bytes | type | ModuleType) or id(value) in seen:
        return
    seen.add(id(value))
    for name, part in _parts(value):
        yield from _held(part, f"{way}.{name}", seen)


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence):
        yield from enumerate(value)
    elif type(value).__module__.partition(".")[0] in _PACKAGES and hasattr(value, "__dict__"):
        for name, part in vars(value).items():
            if "_hooks" not in name and "cache" not in name:
                yield name, part


def assert_equal_numbers(found: Any, expected: Any, rtol: float, atol: float) -> None:
    r"""The same kind of object, with the same numbers in the same places."""
    assert type(found) is type(expected), f"{type(found)}, not {type(expected)}"
    ours, theirs = held_numbers(found), held_numbers(expected)
    assert ours.keys() == theirs.keys(), f"other numbers: {sorted(ours.keys() ^ theirs.keys())}"
    for way, number in theirs.items():
        torch.testing.assert_close(
            ours[way],
            number,
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda said, way=way: f"{way}: {said}",
        )
