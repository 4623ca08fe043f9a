r"""A limit for the time of a round, which a user's function may never end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from types import FrameType, TracebackType

_GRACE_SECONDS = 5.0  # for a round that does not let itself be interrupted


class RoundTooLongError(TimeoutError):
    r"""A round has taken longer than its limit."""


class RoundLimit:
    r"""Raise `RoundTooLongError` in a round that takes too long; a context manager.

    The main thread of a process is interrupted by a signal, also while it sleeps. What a signal
    cannot interrupt, such as a library in C, a thread that is not the main one, or Windows, ends
    with the process if this is a worker; in any other process it goes on.

    Args:
        seconds: The limit; None sets none.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self._has_signals = (
            hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        )

    def __enter__(self) -> RoundLimit:
        if self._seconds is not None and self._has_signals:
            self._before = signal.signal(signal.SIGALRM, self._raise)
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        if self._seconds is not None and self._has_signals:
            signal.signal(signal.SIGALRM, self._before)

    def begin(self) -> None:
        r"""Begin to measure a round."""
        self._stop()
        if self._seconds is None:
            return
        if self._has_signals:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        if multiprocessing.parent_process() is not None:
            grace = _GRACE_SECONDS if self._has_signals else 0.0
            self._timer = threading.Timer(self._seconds + grace, os._exit, args=(1,))
            self._timer.daemon = True
            self._timer.start()

    def _stop(self) -> None:
        if self._seconds is not None and self._has_signals:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _raise(self, number: int, frame: FrameType | None) -> None:
        raise RoundTooLongError(f"the round took longer than {self._seconds:g} s")
