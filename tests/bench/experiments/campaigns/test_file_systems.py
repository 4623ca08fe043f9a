from __future__ import annotations

from pathlib import Path

import pytest
from botorch_risk_bench.experiments import StoreError
from botorch_risk_bench.experiments.campaigns.file_systems import check_local, file_system_of

MOUNTS = """\
/dev/root / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/local\\040disk xfs rw 0 0
garbage
"""


def test_the_innermost_mount_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    for path, kind in (
        ("/tmp/a.sqlite", "ext4"),
        ("/home/me/a.sqlite", "nfs4"),
        ("/home/local disk/a.sqlite", "xfs"),
        ("/homes/a.sqlite", "ext4"),
    ):
        assert file_system_of(Path(path), mounts) == kind
    check_local(Path("/home/local disk/a.sqlite"), mounts)
    with pytest.raises(StoreError, match=r"a disk of this machine.*Got a file system of type nfs4"):
        check_local(Path("/home/me/a.sqlite"), mounts)


def test_nothing_is_refused_where_nothing_is_known(tmp_path: Path) -> None:
    assert file_system_of(tmp_path, tmp_path / "none") == ""
    check_local(tmp_path, tmp_path / "none")
    check_local(tmp_path / "here.sqlite")
