r"""The recorders of the engine, and one for tests that run on a device without its own."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from botorch_risk.engine.recorded import RECORDERS as RECORDERS


class Recorder:
    r"""What repeats a function with the inputs that it was given."""

    def __init__(self, function: Callable[..., Tensor], X: Tensor, *given: Tensor) -> None:
        self._function, self._given = function, [each.clone() for each in given]

    def __call__(self, X: Tensor) -> Tensor:
        return self._function(X, *self._given)

    def give(self, *given: Tensor) -> None:
        for kept, new in zip(self._given, given, strict=True):
            kept.copy_(new)


def make_recorder(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""Lets a device record for the rest of a test, if it has no recorder."""
    if device.type not in RECORDERS:
        monkeypatch.setitem(RECORDERS, device.type, Recorder)
