r"""Functions that a GPU records once and replays as one launch.

With few replicates, a PyTorch call takes a GPU's host ten times as long as its kernel runs: a
likelihood with its gradient, 70 kernels, takes 1.0 ms as calls and 0.14 ms as a CUDA graph. Within
a `steady` block an optimiser calls the same function repeatedly with one shape, so it is recorded
at its second call and replayed from then on (`Recorded`). A function that reads its arguments and
nothing else keeps its recording for later rounds and other models (`Replays`).
"""

import gc
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.progress import advance
from botorch_risk.steady import looks_at_once, memory, sent

# Entries of its largest tensors from which the kernels take longer than the calls: what is recorded
# has one shape, which in an optimiser means that rows which have ended are computed as well.
MOST_ENTRIES = 2**22
ENTRIES_OF_A_POINT = 2**7  # of an acquisition function: as with so many training points
# Recordings that are kept for later rounds, of every thread; the one used longest ago goes.
MOST_KEPT = 64


class Recording(Protocol):
    r"""A function with one input that changes, replayed as a single launch."""

    def __call__(self, X: Tensor) -> Tensor:
        r"""The result, which the next call overwrites."""
        ...

    def give(self, *given: Tensor) -> None:
        r"""Replace the other inputs."""
        ...


class CudaGraph:
    r"""A recording on an NVIDIA GPU.

    Args:
        function: What to record. It launches kernels and nothing else: CUDA raises a RuntimeError
            if it waits for the device or uploads.
        X: An input; later inputs have its shape.
        given: Further inputs, which change rarely.
    """

    def __init__(self, function: Callable[..., Tensor], X: Tensor, *given: Tensor) -> None:
        self._input, self._graph = X.clone(), torch.cuda.CUDAGraph()
        self._given = [each.clone() for each in given]
        present, stream = torch.cuda.current_stream(X.device), torch.cuda.Stream(X.device)
        stream.wait_stream(present)  # which makes the copies above
        collects = gc.isenabled()
        gc.disable()  # to free another graph would end the recording
        try:
            with torch.cuda.stream(stream), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the empty graph that a failure leaves
                # By default an allocation by another thread would be an error as well.
                self._graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._output = function(self._input, *self._given)
                finally:
                    self._graph.capture_end()
        finally:
            if collects:
                gc.enable()
            present.wait_stream(stream)

    def __call__(self, X: Tensor) -> Tensor:
        self._input.copy_(X)
        self._graph.replay()
        return self._output

    def give(self, *given: Tensor) -> None:
        for kept, new in zip(self._given, given, strict=True):
            kept.copy_(new)


# By the type of the device: from a function and its inputs to a recording.
RECORDERS: dict[str, Callable[..., Recording]] = {"cuda": CudaGraph}


def are_recorded(device: torch.device, entries: int) -> bool:
    r"""Whether the device records functions with so many entries in their largest tensor."""
    return device.type in RECORDERS and entries <= MOST_ENTRIES


class Recorded:
    r"""A function of one tensor, which is recorded if a GPU can and if that saves time.

    Args:
        function: Maps a tensor to a tensor. Everything else that it reads must stay unchanged
            within a `steady` block; outside such blocks nothing is recorded.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self._function = function

    def __call__(self, X: Tensor) -> Tensor:
        made = memory()
        if made is None or X.device.type not in RECORDERS:
            return self._function(X)
        key = (id(self), X.shape, X.dtype)
        if key not in made:  # a first call may prepare what later ones read
            made[key] = self, None
            return self._function(X)
        _, recording = made[key]
        if recording is None:
            recording = _recording(self._function, X)
            made[key] = self, recording
        # A copy, as the next call overwrites what a recording returns.
        return self._function(X) if recording is _CANNOT else recording(X).clone()


_CANNOT: Any = object()


def _recording(function: Callable[..., Tensor], X: Tensor, *given: Tensor) -> Recording:
    try:
        with looks_at_once():
            return RECORDERS[X.device.type](function, X, *given)
    except RuntimeError:  # as CUDA raises where a function looks at a value
        return _CANNOT


@dataclass(frozen=True)
class Portable:
    r"""An objective that reads its arguments and nothing else.

    Args:
        key: Names the objective without its tensors: those with the same key share recordings.
        function: Maps points `rows x p` and the other tensors to values and gradients.
        given: The other tensors.
    """

    key: Hashable
    function: Callable[..., tuple[Tensor, Tensor]]
    given: tuple[Tensor, ...]

    def __call__(self, x: Tensor, _: ndarray) -> tuple[Tensor, Tensor]:
        return self.function(x, *self.given)


class Replays:
    r"""A function that reads its arguments and nothing else, recorded at its second call.

    The recording serves every function of the same key and shapes, in this and in later rounds.

    Args:
        key: Names the function without its tensors.
        function: Maps a tensor `X` and those in `given` to a tensor.
        given: The inputs that do not change.
    """

    def __init__(self, key: Hashable, function: Callable[..., Tensor], *given: Tensor) -> None:
        self._key, self._function, self._given = key, function, given
        self._name = object()
        self._shapes = tuple((each.shape, each.dtype) for each in given)

    def __call__(self, X: Tensor) -> Tensor:
        r"""What the function returns, which the next call may overwrite."""
        if X.device.type not in RECORDERS:
            return self._function(X, *self._given)
        made = _kept()
        key = self._key, X.device, X.shape, X.dtype, self._shapes
        if key not in made:  # libraries prepare themselves at a first call
            made[key] = _Kept()
            while len(made) > MOST_KEPT:
                made.popitem(last=False)
            return self._function(X, *self._given)
        made.move_to_end(key)
        kept = made[key]
        if kept.recording is None:
            kept.recording, kept.owner = _recording(self._function, X, *self._given), self._name
        if kept.recording is _CANNOT:
            return self._function(X, *self._given)
        if kept.owner is not self._name:
            kept.recording.give(*self._given)
            kept.owner = self._name
        return kept.recording(X)


@dataclass
class _Kept:
    recording: Recording | None = None
    owner: object = None  # whose inputs it has


_OF_THREAD = threading.local()  # a recording has one input for all of its callers


def _kept() -> OrderedDict[Hashable, _Kept]:
    made: OrderedDict[Hashable, _Kept] | None = getattr(_OF_THREAD, "made", None)
    if made is None:
        made = _OF_THREAD.made = OrderedDict()
    return made


class SelectedRows:
    r"""A function of rows of parameters, some of which finish before others.

    Args:
        rows: The rows, ascending.
        parts: The function on blocks of them, `block x p` to `block x k`.
        size: The rows of a block.
        like: A tensor with the dtype and on the device of the function's input.
        is_kept: Whether finished rows are still computed, in vain, since a GPU recording has one
            shape.
    """

    def __init__(
        self,
        rows: ndarray,
        parts: Sequence[Callable[[Tensor], Tensor]],
        size: int,
        like: Tensor,
        is_kept: bool,
    ) -> None:
        self._rows, self._parts, self._size, self._like = rows, parts, size, like
        self._is_kept, self._last = is_kept, np.empty(0)

    def has(self, rows: ndarray) -> bool:
        if self._is_kept and len(rows) <= len(self._rows):
            return bool(np.isin(rows, self._rows).all())
        return np.array_equal(rows, self._rows)

    def __call__(self, values: ndarray, rows: ndarray) -> ndarray:
        r"""Results `rows x k` for parameters `rows x p`, in one download."""
        among: Any = slice(None)
        if len(rows) < len(self._rows):
            among = np.searchsorted(self._rows, rows)
            self._last[among] = values  # finished rows stay where they ended
        else:
            self._last = values.copy()
        blocks = sent(self._last, self._like.device).to(self._like).split(self._size)
        found = []
        for part, block in zip(self._parts, blocks, strict=True):
            found.append(part(block))
            advance()  # or a fit of thousands of rows would say nothing
        joined = found[0] if len(found) == 1 else torch.cat(found)
        results: ndarray = joined.cpu().double().numpy()
        return results[among]
