from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns.whole_files import replacing


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in ("first", "second"):
        with replacing(path) as written:
            written.write_text(text)
            assert written.parent == tmp_path  # on the same disk
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_an_error_leaves_the_file_as_it_was(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("of last week")
    with pytest.raises(error, match="in the middle"), replacing(path) as written:
        written.write_text("half")
        raise error("in the middle")
    assert path.read_text() == "of last week"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "a.csv", tmp_path / "link.csv"
    path.touch(mode=0o640)
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as written:
        written.write_text("new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with replacing(tmp_path / "a.csv") as written:
        written.write_text("new")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="/dev/stdout")
def test_what_is_no_file_is_written_directly() -> None:
    script = """
from botorch_risk_bench.campaigns.whole_files import replacing
with replacing("/dev/stdout") as written:
    written.write_text("shown")
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert shown.stdout == b"shown"
