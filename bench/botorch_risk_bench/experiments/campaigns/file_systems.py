r"""Where a store may not be: SQLite's locks do not hold on network file systems."""

from __future__ import annotations

from pathlib import Path

from botorch_risk_bench.experiments.serialization import StoreError

_MOUNTS = Path("/proc/self/mounts")
_SHARED = {
    *("afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre"),
    *("ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "wekafs"),
}


def check_local(path: Path, mounts: Path = _MOUNTS) -> None:
    r"""Raises a StoreError if a file is on a network file system.

    Args:
        path: The file, which need not be there.
        mounts: What is mounted where, in Linux's format; without it nothing is known, nor refused.
    """
    found = file_system_of(path, mounts)
    if found in _SHARED:
        raise StoreError(
            f"Expected {path} to be on a disk of this machine, as the locks of SQLite do not hold "
            f"on network file systems. Got a file system of type {found}."
        )


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    r"""The type of the file system that a file is on; empty if it is unknown."""
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
