from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "import pytest\n@pytest.mark.{mark}\ndef test_{name}(): assert {truth}\n"
UNKNOWN = MARK.format(mark="skip('no NumPyro')", name="it", truth=True)
WHOLE = "import pytest\npytest.importorskip('no_such_package')\n"
KNOWN = (
    MARK.format(mark="skip(reason='needs a GPU')", name="gpu", truth=False)
    + MARK.format(mark='skip(reason="needs the papers\' table: a path")', name="table", truth=False)
    + MARK.format(mark="xfail(strict=True)", name="expected", truth=False)
    + "def test_passes(): assert True\n"
)


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_here.py").write_text(source, encoding="utf-8")
    plugin = ["-p", "xdist", "-p", "tests.only_known_skips", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "test_here.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("source", [KNOWN + UNKNOWN, WHOLE], ids=["test", "module"])
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_skip_for_an_unknown_reason_fails_the_session(
    tmp_path: Path, source: str, options: tuple[str, ...]
) -> None:
    done = run(tmp_path, source, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "= 1 skips for other reasons" in done.stdout
    assert "no NumPyro" in done.stdout or "no_such_package" in done.stdout


def test_known_reasons_and_expected_failures_pass(tmp_path: Path) -> None:
    done = run(tmp_path, KNOWN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout


def test_everything_is_installed_by_test_all_and_skips_are_counted() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(
        r"^test-all: \$\(VENV\)/\.all .*\n.* -p tests\.only_known_skips ", recipe, re.M
    )
    (line,) = re.findall(r"^\$\(VENV\)/\.all: .*\n.*\n(.*)$", recipe, re.M)
    for folder in (".", "./bench"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        extras = project["project"]["optional-dependencies"]
        inner = [
            re.fullmatch(r"botorch_risk\[(.*)\]", each)
            for extra in extras.values()
            for each in extra
        ]
        named = {name for match in inner if match for name in match[1].split(",")}
        (installed,) = re.findall(rf'-e "{re.escape(folder)}\[(.*?)\]"', line)
        assert set(extras) - named <= set(installed.split(","))
