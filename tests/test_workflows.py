r"""The workflows of a forge run nothing but targets of the Makefile."""

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


def test_there_are_two() -> None:
    assert [path.stem for path in WORKFLOWS] == ["docs", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_command_is_a_target(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    commands = [step["run"].split() for step in steps(workflow) if "run" in step]
    assert commands and all(command[0] == "make" for command in commands)
    assert {target for command in commands for target in command[1:]} <= TARGETS
