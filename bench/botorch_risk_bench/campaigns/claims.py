r"""One process at a time writes to a store, on a disk where locks hold.

The operating system locks a small file next to the store, so a process releases it however it ends.
The file names its holder and is removed when the writing ends. Neither this lock nor SQLite's works
on network file systems.
"""

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from botorch_risk_bench.campaigns.database import StoreError

WAIT_SECONDS = 10.0  # for another process to end
_POLL_SECONDS = 0.05
_MOUNTS = Path("/proc/self/mounts")
_SHARED = {
    *("afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre"),
    *("ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "wekafs"),
}


@contextmanager
def claim(path: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    r"""Keep other processes from writing to a store while the context lasts.

    Args:
        path: The store, there or to be created.
        wait_seconds: How long to wait for another process to end.

    Raises:
        StoreError: If another process is still writing then, or the store is on a network file
            system or in no folder that can be written to.
    """
    check_local(path)
    path = path.resolve()
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + wait_seconds
    while (file := _locked(lock, path)) is None:
        if time.monotonic() >= deadline:
            raise StoreError(
                f"Expected no other process to write to {path}. Got {_holder(lock)}; wait for it "
                "or end it."
            )
        time.sleep(_POLL_SECONDS)
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove open files
                lock.unlink()


def _locked(lock: Path, path: Path) -> IO[str] | None:
    r"""Open and lock the file; None if another process holds it."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
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
    r"""Try to take the exclusive lock of an open file."""
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


def check_local(path: Path, mounts: Path = _MOUNTS) -> None:
    r"""Raise a StoreError if a file is on a network file system."""
    found = file_system_of(path, mounts)
    if found in _SHARED:
        raise StoreError(
            f"Expected {path} to be on a disk of this machine, as the locks of SQLite do not hold "
            f"on network file systems. Got a file system of type {found}."
        )


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    r"""Name the type of the file system of a file; empty if unknown."""
    if not mounts.exists():
        return ""
    target = path.resolve()
    best, kind = -1, ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = Path(fields[1].replace("\\040", " "))
        if target.is_relative_to(place) and len(place.parts) >= best:  # the last mount hides others
            best, kind = len(place.parts), fields[2]
    return kind
