r"""Report the progress of a long computation by Python's `logging`.

The logger is `botorch_risk`, the level INFO; a computation of under ten seconds reports nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_LOGGER = logging.getLogger("botorch_risk")
# Seconds between two messages, and before the first.
_INTERVAL = 10.0
_present: ContextVar[_Progress | None] = ContextVar("progress", default=None)


class _Progress:
    def __init__(self, task: str) -> None:
        self._task, self._stage, self._count = task, "", 0
        self._begun = monotonic()
        self._next = self._begun + _INTERVAL

    def advance(self, count: int) -> None:
        self._count += count
        now = monotonic()
        if now >= self._next:
            self._next = now + _INTERVAL
            _LOGGER.info(
                "%s: %.0f s, %s evaluations%s.",
                self._task,
                now - self._begun,
                f"{self._count:,}",
                self._stage,
            )

    def enter(self, stage: str) -> None:
        self._stage = stage


@contextmanager
def reporting(task: str) -> Iterator[None]:
    r"""Report what is done within the block; a block within another belongs to the outer one."""
    if _present.get() is not None:
        yield
        return
    token = _present.set(_Progress(task))
    try:
        yield
    finally:
        _present.reset(token)


def advance(count: int = 0) -> None:
    r"""Count evaluations that have ended, and log a message if one is due."""
    if (progress := _present.get()) is not None:
        progress.advance(count)


def enter(stage: str) -> None:
    r"""Name what the present block is doing, as the end of a sentence."""
    if (progress := _present.get()) is not None:
        progress.enter(f", {stage}")
