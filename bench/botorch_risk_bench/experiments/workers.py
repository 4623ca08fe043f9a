r"""Processes that work for another one and do not outlive it."""

from __future__ import annotations

import os
import threading
import time

_POLL_SECONDS = 0.2
_watched = threading.Event()


def end_with(parent: int) -> None:
    r"""Ends this process as soon as its parent has ended, however that came about.

    A parent that is killed cannot end its workers, so they look after it, five times a second. The
    end is immediate, as if killed too: what has been committed stays, and the rest is done again.
    Where a process keeps the number of a parent that has ended, on Windows, nothing happens.

    Args:
        parent: The number of the parent. Nothing happens in the parent itself.
    """
    if parent == os.getpid() or _watched.is_set():
        return
    _watched.set()
    threading.Thread(target=_watch, args=(parent,), name="watch parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)
