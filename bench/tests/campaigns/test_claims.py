import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import StoreError
from botorch_risk_bench.campaigns.claims import check_local, claim, file_system_of

PID = os.getpid()
MOUNTS = """\
/dev/root / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/local\\040disk xfs rw 0 0
garbage
"""


def test_one_at_a_time_writes(path: Path) -> None:
    holder = rf"Expected no other process to write to .*a.sqlite\. Got process {PID} on"
    for _ in range(2):
        with claim(path, 0.0):
            with pytest.raises(StoreError, match=holder), claim(path, 0.1):
                pass
            assert len(list(path.parent.iterdir())) == 2
        with claim(path, 0.0):
            pass
        assert list(path.parent.iterdir()) == [path]


def test_a_claim_waits_until_the_other_has_ended(path: Path) -> None:
    with ExitStack() as held:
        held.enter_context(claim(path, 0.0))
        threading.Timer(0.2, held.close).start()
        with claim(path, 60.0):
            assert len(list(path.parent.iterdir())) == 2
        assert list(path.parent.iterdir()) == [path]


def test_a_lock_that_a_killed_process_left_behind_is_free(path: Path) -> None:
    with claim(path, 0.0):
        (lock,) = path.parent.glob("*.lock")
    lock.write_text("process 1 on a machine that was switched off, of the past")
    with claim(path, 0.0):
        assert f"process {PID} on" in lock.read_text()
        assert "switched off" not in lock.read_text()


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
