r"""Locks that end with the process that holds them: one process runs a strategy of a store.

The lock is the operating system's, on a small file beside the store, so that no end of a process
leaves it locked. The file names its holder, and is removed when the strategy ends.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from botorch_risk_bench.experiments.serialization import StoreError

_POLL_SECONDS = 0.05


@contextmanager
def claim(path: Path, label: str, wait_seconds: float) -> Iterator[None]:
    r"""Keeps other processes from running a strategy of a store.

    Args:
        path: The store.
        label: The strategy.
        wait_seconds: How long to wait for another process that runs it.

    Raises:
        StoreError: If another process still runs it then; it is named.
    """
    path = path.resolve()
    digest = hashlib.blake2b(label.encode(), digest_size=4).hexdigest()  # no label is a bad name
    lock = path.with_name(f"{path.name}-{digest}.lock")
    deadline = time.monotonic() + wait_seconds
    while (file := _locked(lock, path)) is None:
        if time.monotonic() >= deadline:
            raise StoreError(
                f"Expected no other process to run {label!r} of {path}. Got {_holder(lock)}; wait "
                "for it or end it."
            )
        time.sleep(_POLL_SECONDS)
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, which runs {label!r}")
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove open files
                lock.unlink()


def _locked(lock: Path, path: Path) -> IO[str] | None:
    r"""The lock file, open and locked; None if another process holds it."""
    try:
        file = lock.open("a+", encoding="utf-8")
        if _try_lock(file):
            # The holder may have removed the file between our opening and locking it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                    return file
        file.close()
    except OSError as error:
        raise StoreError(
            f"Expected the folder of {path} to take a lock file. Got {error}."
        ) from error
    return None


def _holder(lock: Path) -> str:
    with suppress(OSError):
        return lock.read_text(encoding="utf-8").strip() or "one that has just begun"
    return "one that has just ended"


def _try_lock(file: IO[str]) -> bool:
    r"""Whether this process now holds the exclusive lock of an open file."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(2**30)  # a byte beyond the text, as others may not read what is locked
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
