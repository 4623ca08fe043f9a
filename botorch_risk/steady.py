r"""Control when the program may inspect values, since this makes the host wait for a GPU.

On a CPU an inspection is cheap, but an optimiser repeats it hundreds of times while the inspected
objects stay the same. In a `steady` block, the results of comparisons and checks are kept until its
end.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

_known: ContextVar[dict[Hashable, Any] | None] = ContextVar("known", default=None)

# Flags on a device, and what to call if one does not hold.
Expected = tuple[Tensor, Callable[[], Any]]
_expected: ContextVar[list[Expected] | None] = ContextVar("expected", default=None)


@contextmanager
def steady() -> Iterator[None]:
    r"""A context in which models and distributions must not be modified."""
    if _known.get() is not None:
        yield
        return
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def memory() -> dict[Hashable, Any] | None:
    r"""The results that are kept until the present block ends, by name; None outside of blocks."""
    return None if torch.compiler.is_compiling() else _known.get()


def is_known(key: Hashable) -> bool:
    r"""Whether `remember` was called with this key in the present block."""
    known = _known.get()
    return known is not None and key in known


def remember(key: Hashable, kept: Any) -> None:
    r"""Note that a check has passed, if there is a block.

    An object's address is a valid key while the object lives: `kept` lives as long as the block.
    """
    known = _known.get()
    if known is not None:
        known[key] = kept


def once(key: Hashable, kept: Any, look: Callable[[], Any]) -> Any:
    r"""The result of an inspection, made once in the present block; None outside of blocks.

    For `key` and `kept` see `remember`.
    """
    known = memory()
    if known is None:
        return None
    if key not in known:
        known[key] = look(), kept
    return known[key][0]


@contextmanager
def one_look() -> Iterator[None]:
    r"""A context that postpones checks of values on a device to its end, and makes them at once.

    Until then the block may use values that it should refuse, so it must not store its results. If
    the block raises, the checks are made first, and their error comes first too.
    """
    if _expected.get() is not None:
        yield
        return
    expected: list[Expected] = []
    token = _expected.set(expected)
    try:
        yield
    finally:
        _expected.reset(token)
        if expected:
            device = expected[0][0].device
            holds = torch.stack([flag.to(device) for flag, _ in expected]).tolist()
            for (_, otherwise), one_holds in zip(expected, holds, strict=True):
                if not one_holds:
                    otherwise()


@contextmanager
def looks_at_once() -> Iterator[None]:
    r"""A context in which `one_look` postpones nothing, as in a recording."""
    token = _expected.set(None)
    try:
        yield
    finally:
        _expected.reset(token)


def expect(holds: Tensor, otherwise: Callable[[], Any]) -> None:
    r"""Call a function that raises or warns if a flag does not hold; `one_look` postpones the call.

    On a CPU it is called at once. `holds` has no dimension. The tensors that the function reads
    must not be modified.
    """
    expected = _expected.get()
    if expected is not None and holds.device.type != "cpu" and not torch.compiler.is_compiling():
        expected.append((holds, otherwise))
    elif not holds:
        otherwise()


def moved(tensor: Tensor, like: Tensor) -> Tensor:
    r"""A tensor in the dtype and on the device of another; within a block it is sent once."""
    if tensor.device == like.device and tensor.dtype == like.dtype:
        return tensor
    key = ("moved", id(tensor), like.device, like.dtype)
    found = once(key, tensor, lambda: tensor.to(like, non_blocking=True))
    return tensor.to(like) if found is None else found


def sent(array: ndarray | Tensor, to: torch.device) -> Tensor:
    r"""Copy a host array to a device without waiting.

    CUDA reads memory that is not pinned before the call returns, so the array may be overwritten.
    """
    return torch.as_tensor(array).to(to, non_blocking=True)


def fetched(*tensors: Tensor) -> list[ndarray]:
    r"""Copy tensors of any shape to the host, in float64, with a single wait for a device."""
    if all(each.device.type == "cpu" for each in tensors):
        return [each.detach().double().numpy() for each in tensors]
    device = next(each.device for each in tensors if each.device.type != "cpu")
    flat = [each.detach().double().reshape(-1) for each in tensors]
    joined = torch.cat([each if each.device == device else sent(each, device) for each in flat])
    ends = list(accumulate(each.numel() for each in tensors))[:-1]
    parts = np.split(joined.cpu().numpy(), ends)
    return [part.reshape(each.shape) for part, each in zip(parts, tensors, strict=True)]


def may_look(values: Tensor) -> bool:
    r"""Whether control flow may depend on values.

    True on a CPU, on other devices outside of blocks, and never while `torch.compile` is tracing.
    """
    if torch.compiler.is_compiling():
        return False
    return values.device.type == "cpu" or (_known.get() is None and _expected.get() is None)


def are_on_host(*tensors: Tensor) -> bool:
    r"""Whether NumPy can compute with tensors: in float64 on a CPU, and not for `torch.compile`."""
    return not torch.compiler.is_compiling() and all(
        each.device.type == "cpu" and each.dtype == torch.float64 for each in tensors
    )
