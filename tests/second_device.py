r"""A second device for machines without a GPU: `sim` computes on the CPU and behaves like a GPU.

It refuses to mix its tensors with CPU tensors as CUDA does, adds in any order where CUDA does, and
counts what a GPU's user waits for: kernel launches, synchronisations, and the bytes of each
transfer. Control flow is real, since
the numbers are. PyTorch lets a backend be written in Python (`PrivateUse1`); importing this module
registers it, and no other device notices.

    X = torch.rand(5, 2, device="sim")
    with counted() as count:
        X.sum().item()
    count.launches, count.synchronisations  # 1, {"item": 1}
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from tests.engine.recorders import RECORDERS


class _SimModule(_DummyBackendModule):
    r"""`torch.sim`: what `torch.random` asks of a device, which draws on the CPU."""

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.random.default_generator.get_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        torch.random.default_generator.set_state(state)


# PyTorch's autograd knows one accelerator for each process: next to a GPU there is no other.
IS_THERE = not torch.cuda.is_available()
if IS_THERE:
    _setup_privateuseone_for_python_backend("sim", backend_module=_SimModule())
SIM = torch.device("sim:0" if IS_THERE else "meta")
only_without_gpu = pytest.mark.skipif(
    not IS_THERE, reason="needs the second device, which no process has next to a GPU"
)

# Allocations and other changes of metadata launch no kernel; nor do views, which say so themselves.
_WITHOUT_KERNEL = {
    "_has_compatible_shallow_copy_type", "_reshape_alias", "_unsafe_view", "alias", "detach",
    "empty", "empty_like", "empty_strided", "is_same_size", "lift_fresh", "new_empty",
    "new_empty_strided", "set_",
}  # fmt: skip

# Operations of several kernels on an NVIDIA GPU, roughly: blocked factorisations, sorts, scans.
_KERNELS = Counter(
    linalg_cholesky_ex=4, cholesky_inverse=4, linalg_solve_triangular=3, cholesky_solve=3,
    linalg_lu_factor_ex=4, linalg_inv_ex=6, _linalg_solve_ex=6, linalg_qr=20, _linalg_eigh=60,
    _linalg_svd=80, sort=5, topk=3, median=6, kthvalue=2, nonzero=4, masked_select=5, _unique2=10,
    unique_dim=12, index_put_=2, logsumexp=3, logcumsumexp=2, baddbmm=2, equal=3,
)  # fmt: skip

# Their threads add to one entry as they come: the same call has other last digits each time.
_ADD_IN_ANY_ORDER = {"scatter_add", "scatter_add_", "index_add", "index_add_"}
_ORDER = torch.Generator().manual_seed(0)  # of its own, so that no draw of a test changes

# Of more rows than these, a GPU goes through a batch of them.
_ONE_BY_ONE = {"_linalg_eigh", "_linalg_svd", "linalg_qr", "linalg_lstsq", "linalg_eig"}
_MOST_ROWS_AT_ONCE = 32

_READ_BY_THE_HOST = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_INDEXING = {"index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_"}
_CHECKED_BY_THE_HOST = {"_linalg_check_errors", "_linalg_eigh", "_linalg_svd"}
_TAKES_HOST_SCALARS = {"fill_", "masked_fill", "masked_fill_", "index_fill", "index_fill_"}


@dataclass
class Count:
    r"""What a program asked of the device.

    Attributes:
        launches: The number of kernels.
        synchronisations: How often the host waited, by kind; a transfer counts as one, unless it is
            an upload that does not block, which is put in line as a kernel is.
        bytes_to_device: The bytes that were uploaded.
        bytes_to_host: The bytes that were downloaded.
        sites: How often the host waited, by kind and the line that made it wait.
        one_by_one: The matrices of batches that a GPU decomposes one at a time, by operation.
        calls: The functions that Python called, its own and those in C, by the line of the package
            that called; empty without `counted(calls=True)`, which triples the time.
    """

    launches: int = 0
    synchronisations: Counter[str] = field(default_factory=Counter)
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    sites: Counter[tuple[str, str]] = field(default_factory=Counter)
    one_by_one: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)


_COUNTS: list[Count] = []


@contextmanager
def counted(calls: bool = False) -> Iterator[Count]:
    r"""Counts what the block asks of the device, and of Python if `calls`."""
    count = Count()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename != __file__:
            count.calls[_site(frame)] += 1

    _COUNTS.append(count)
    before = sys.getprofile()
    sys.setprofile(profile if calls else before)
    try:
        yield count
    finally:
        sys.setprofile(before)
        _COUNTS.remove(count)


def _without_python(function: Callable[..., Any]) -> Callable[..., Any]:
    r"""Of what stands for the device itself, no call is counted."""

    @wraps(function)
    def run(*args: Any) -> Any:
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            return function(*args)
        finally:
            sys.setprofile(profile)

    return run


class SimTensor(Tensor):
    r"""A tensor on the second device, which keeps its numbers in a tensor of the CPU."""

    raw: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: Tensor) -> SimTensor:
        self = Tensor._make_wrapper_subclass(
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=SIM,
        )
        self.raw = raw
        return self

    @classmethod
    def __torch_dispatch__(
        cls, op: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(op, args, kwargs or {})

    # PyTorch refuses these to every subclass, and not to a device.
    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError(f"can't convert {SIM} device type tensor to numpy; use Tensor.cpu().")
        return self.detach().cpu().numpy()

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.dim() == 0 else repr(self), spec)

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self.detach().cpu())[:-1] + f", device='{SIM}')"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(copy, copy.requires_grad) if is_parameter else copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (self.raw, self.requires_grad, isinstance(self, torch.nn.Parameter))


class SimGraph:
    r"""A recording there: it may do what a CUDA graph may, and is one launch when it is repeated.

    What is recorded counts as if it were launched, for so it keeps the host busy.
    """

    def __init__(self, function: Callable[..., Tensor], X: Tensor, *given: Tensor) -> None:
        self._function, self._given = function, [each.clone() for each in given]
        with counted() as count:
            function(X, *self._given)
        if count.synchronisations or count.bytes_to_device:
            raise RuntimeError(f"operation not permitted when stream is capturing: {count}")

    @_without_python
    def __call__(self, X: Tensor) -> Tensor:
        counts = _COUNTS.copy()
        _COUNTS.clear()
        try:
            return self._function(X, *self._given)
        finally:
            _COUNTS.extend(counts)
            for count in counts:
                count.launches += 2  # one of them for the input

    def give(self, *given: Tensor) -> None:
        for kept, new in zip(self._given, given, strict=True):
            kept.copy_(new)


RECORDERS["sim"] = SimGraph


def _restored(raw: Tensor, requires_grad: bool, is_parameter: bool) -> Tensor:
    tensor = SimTensor(raw)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


@_without_python
def _run(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    r"""Computes an operation of the device on the CPU, and counts it."""
    name, given = op._overloadpacket.__name__, []
    raw_args = [_raw(each, given) for each in args]
    raw_kwargs = {key: _raw(each, given) for key, each in kwargs.items()}
    _check_one_device(op, name, args, given)
    if name in _ADD_IN_ANY_ORDER:
        raw_args[2:4] = _in_any_order(*raw_args[1:4])
    result = op(*raw_args, **raw_kwargs)
    to_host = name == "_to_copy" and _is_cpu(kwargs.get("device"))
    if _COUNTS:
        _count(op, name, args, result, to_host)
    if to_host:
        return result
    if name == "copy_":
        return args[0]  # which may be of the CPU
    return _wrapped(result, {id(each.raw): each for each in given if isinstance(each, SimTensor)})


def _raw(value: Any, given: list[Any]) -> Any:
    r"""An argument on the CPU; its tensors and generators are added to a list."""
    if isinstance(value, Tensor | torch.Generator):
        given.append(value)
        return value.raw if isinstance(value, SimTensor) else value
    if isinstance(value, list | tuple):
        return [_raw(each, given) for each in value]
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _in_any_order(dim: int, index: Tensor, source: Tensor) -> list[Tensor]:
    r"""The addends of an operation and where they go, in a random order."""
    if index.dim() == 0:
        return [index, source]
    along = dim if index.dim() > 1 else 0  # of a vector of indices, as in `index_add`
    order = torch.randperm(index.shape[along], generator=_ORDER)
    return [index.index_select(along, order), source.index_select(dim, order)]


def _wrapped(value: Any, known: dict[int, SimTensor]) -> Any:
    r"""A result on the device: a new tensor, or the one that was changed in place."""
    if isinstance(value, list | tuple):
        return [_wrapped(each, known) for each in value]
    if not isinstance(value, Tensor):
        return value
    if (changed := known.get(id(value))) is None:
        return SimTensor(value)
    if changed.shape != value.shape:  # as `torch.eye` does, which fills an empty tensor
        changed.data = SimTensor(value)
    return changed


def _is_cpu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cpu"


def _is_of_host(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, SimTensor)


def _check_one_device(op: Any, name: str, args: Any, given: list[Any]) -> None:
    r"""Refuses tensors of the CPU where CUDA does: all but copies, indices and some scalars."""
    foreign = [each for each in given if not isinstance(each, SimTensor)]
    if name == "copy_" or not foreign:
        return
    indices = [id(each) for each in args[1]] if name in _INDEXING else []
    takes_scalars = torch.Tag.pointwise in op.tags or name in _TAKES_HOST_SCALARS | _INDEXING
    for each in foreign:
        if isinstance(each, torch.Generator):
            raise RuntimeError("Expected a 'sim' device type for generator but found 'cpu'")
        if id(each) in indices or (takes_scalars and each.dim() == 0):
            continue
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{SIM} and cpu! (in {name}, shape {tuple(each.shape)})"
        )


def _count(op: Any, name: str, args: Any, result: Any, to_host: bool) -> None:
    if name == "copy_" and _is_of_host(args[1]) and args[2:] == (True,):
        for count in _COUNTS:
            count.launches += 1
            count.bytes_to_device += args[1].nbytes
        return
    for kind, size in _waits(op, name, args, result, to_host):
        site = (kind, _site())
        for count in _COUNTS:
            count.synchronisations[kind] += 1
            count.sites[site] += 1
            count.bytes_to_device += size if kind == "upload" else 0
            count.bytes_to_host += size if kind == "download" else 0
    copies = name == "copy_" and any(map(_is_of_host, args[:2]))
    if name in _ONE_BY_ONE and max(args[0].shape[-2:]) > _MOST_ROWS_AT_ONCE and args[0].dim() > 2:
        for count in _COUNTS:
            count.one_by_one[name] += args[0].shape[:-2].numel()
    is_transfer = to_host or copies or name == "_local_scalar_dense"
    if not (is_transfer or name in _WITHOUT_KERNEL or op.is_view):
        for count in _COUNTS:
            count.launches += _KERNELS[name] or 1


def _waits(op: Any, name: str, args: Any, result: Any, to_host: bool) -> Iterator[tuple[str, int]]:
    r"""How an operation makes the host wait: the kind, and the bytes that are moved."""
    if to_host:
        yield "download", result.nbytes
    elif name == "copy_":
        if _is_of_host(args[1]):
            yield "upload", args[1].nbytes
        elif _is_of_host(args[0]):
            yield "download", args[0].nbytes
    elif name in _INDEXING:
        for index in args[1]:
            if index is not None and index.dtype in (torch.bool, torch.uint8):
                yield "mask", 0
            if _is_of_host(index):
                yield "upload", index.nbytes
    elif name == "_local_scalar_dense":
        yield "item", 0
    elif name in _CHECKED_BY_THE_HOST or _READ_BY_THE_HOST & set(op.tags):
        yield name, 0


def _site(frame: FrameType | None = None) -> str:
    r"""The innermost line of the package that looks, or else of any library but PyTorch."""
    frame, other = frame or sys._getframe(1), ""
    while frame is not None:
        path = frame.f_code.co_filename
        line = f"{path.rpartition('/botorch_risk/')[2]}:{frame.f_lineno} {frame.f_code.co_name}"
        if "/botorch_risk/" in path and not path.endswith("/steady.py"):
            return line
        if not other and "/torch/" not in path and path != __file__:
            other = line
        frame = frame.f_back
    return other


def _copied(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return _run(torch.ops.aten.copy_.default, (to, source, non_blocking), {})


def _allocated(size: Any, stride: Any, *, dtype: torch.dtype | None = None, **_: Any) -> SimTensor:
    return SimTensor(torch.empty_strided(size, stride, dtype=dtype))


def _item(tensor: Tensor) -> Any:
    return _run(torch.ops.aten._local_scalar_dense.default, (tensor,), {})


# Factories are called on no tensor, so that they never meet `__torch_dispatch__`. Nor does what
# `torch.tensor` does with a list of numbers or of scalars, for which it wants separate kernels.
_FACTORIES = torch.library.Library("_", "IMPL")
_FACTORIES.fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
_TRANSFERS = torch.library.Library("aten", "IMPL")
_TRANSFERS.impl("copy_", _copied, "PrivateUse1")
_TRANSFERS.impl("empty_strided", _allocated, "PrivateUse1")
_TRANSFERS.impl("_local_scalar_dense", _item, "PrivateUse1")
