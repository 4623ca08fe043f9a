r"""Skips for unknown reasons fail `make test-all`; a release works from the outside."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "import pytest\n@pytest.mark.{mark}\ndef test_{name}(): assert {truth}\n"
KNOWN = (
    MARK.format(mark="skip(reason='needs a GPU')", name="gpu", truth=False)
    + MARK.format(mark='skip(reason="needs the papers\' table: a path")', name="table", truth=False)
    + MARK.format(mark="xfail(strict=True)", name="expected", truth=False)
    + "def test_passes(): assert True\n"
)
UNKNOWN = MARK.format(mark="skip('no NumPyro')", name="it", truth=True)
WHOLE = "import pytest\npytest.importorskip('no_such_package')\n"


def run_session(
    folder: Path, sources: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    for name, source in sources.items():
        (folder / f"test_{name}.py").write_text(source, encoding="utf-8")
    plugin = ["-p", "xdist", "-p", "tests.only_known_skips", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="alone", marks=pytest.mark.slow), pytest.param(("-n", "2"), id="workers")],
)
def test_skips_for_unknown_reasons_fail_the_session(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    r"""Of a test, and of a whole module."""
    done = run_session(tmp_path, {"part": KNOWN + UNKNOWN, "whole": WHOLE}, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "= 2 skips for other reasons" in done.stdout
    assert "no NumPyro" in done.stdout and "no_such_package" in done.stdout


def test_known_reasons_and_expected_failures_pass(tmp_path: Path) -> None:
    done = run_session(tmp_path, {"known": KNOWN})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout


@pytest.mark.slow
def test_the_outside_test_passes(capsys: pytest.CaptureFixture[str]) -> None:
    outside = Path(__file__).with_name("release_outside.py")
    runpy.run_path(str(outside), run_name="__main__")
    assert capsys.readouterr().out == "works from the outside\n"
