r"""The workflows of a forge run targets of the Makefile and pinned actions, and may only read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
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
    commands = [step["run"].split() for step in steps(workflow) if "run" in step]
    assert commands and all(command[0] == "make" for command in commands)
    assert {target for command in commands for target in command[1:]} <= TARGETS


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
