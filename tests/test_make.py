r"""What `make` and the workflows of a forge run: known skips, a release, pinned actions."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.release_check import lower_bounds

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


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_skips_for_unknown_reasons_fail_the_session(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    r"""Of a test, and of a whole module."""
    done = run_session(tmp_path, {"part": KNOWN + UNKNOWN, "whole": WHOLE}, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "= 2 skips for other reasons" in done.stdout
    assert "no NumPyro" in done.stdout and "no_such_package" in done.stdout


def test_a_skip_of_all_that_there_is_fails_the_session(tmp_path: Path) -> None:
    done = run_session(tmp_path, {"whole": WHOLE})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "= 1 skips for other reasons" in done.stdout


def test_known_reasons_and_expected_failures_pass(tmp_path: Path) -> None:
    done = run_session(tmp_path, {"known": KNOWN})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout


def test_everything_is_installed_by_test_all_and_skips_are_counted() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(
        r"^test-all: \$\(VENV\)/\.all .*\n.* -p tests\.only_known_skips ", recipe, re.M
    )
    (line,) = re.findall(r"^ALL := (.*)$", recipe, re.M)
    for folder in (".", "./bench"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        extras = project["project"]["optional-dependencies"]
        inner = [
            re.fullmatch(r"botorch_risk\[(.*)\]", each)
            for extra in extras.values()
            for each in extra
        ]
        named = {name for match in inner if match for name in match[1].split(",")}
        (installed,) = re.findall(rf'"{re.escape(folder)}\[(.*?)\]"', line)
        assert set(extras) - named <= set(installed.split(","))


def pins(name: str) -> dict[str, str]:
    r"""The version of each distribution in a lock file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pinned = [line.partition(" ;")[0].partition("==") for line in lines if line[0] != "#"]
    return {distribution: version for distribution, _, version in pinned}


def test_the_lock_files_agree_and_pin_what_is_asked_for() -> None:
    every, tested = pins("constraints.txt"), pins("requirements-test.txt")
    assert {name: version for name, version in tested.items() if every[name] != version} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=]", each)[0].replace("_", "-") for each in asked}
    assert names - {"botorch-risk"} <= tested.keys()


OUTSIDE = Path(__file__).with_name("release_outside.py")


def test_the_outside_test_passes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(OUTSIDE), run_name="__main__")
    assert capsys.readouterr().out == "works from the outside\n"


def test_the_outside_test_needs_nothing_of_the_repository() -> None:
    assert "tests" not in OUTSIDE.read_text(encoding="utf-8")


def test_the_oldest_set_pins_every_dependency() -> None:
    assert lower_bounds().split() == ["torch==2.4", "gpytorch==1.15.2", "botorch==0.18.1"]


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

TARGETS = set(
    re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
)


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_are_three() -> None:
    assert [path.stem for path in WORKFLOWS] == ["canary", "docs", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_command_is_a_target(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    commands = [shlex.split(step["run"]) for step in steps(workflow) if "run" in step]
    assert commands and all(command[0] == "make" for command in commands)
    words = {word for command in commands for word in command[1:]}
    variables = {word.partition("=")[0] for word in words if "=" in word}
    assert {word for word in words if "=" not in word} <= TARGETS
    assert all(f"$({name})" in (ROOT / "Makefile").read_text("utf-8") for name in variables)


def test_the_interpreters_are_those_that_the_package_names() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: 3." in line]
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_the_repository_and_nothing_else(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_to_a_commit_with_its_version_beside_it(path: Path) -> None:
    r"""A tag can be moved to other code."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    pinned = re.compile(r"      - uses: actions/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert lines and [line for line in lines if not pinned.fullmatch(line)] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    used = {
        step["uses"]
        for path in WORKFLOWS
        for step in steps(yaml.safe_load(path.read_text(encoding="utf-8")))
        if "uses" in step
    }
    assert len(used) == len({name.partition("@")[0] for name in used})
