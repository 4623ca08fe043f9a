r"""README.md and CITATION.cff say what is so."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import botorch_risk

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
LOOP = next(iter(re.findall(r"```diff\n(.*?)```", TEXT, flags=re.DOTALL)))
CLAIMS = re.findall(r"`mean (-?[\d.]+), standard deviation of a reading ([\d.]+)`", TEXT)


def of_the_loop(left_out: str) -> tuple[float, ...]:
    r"""What the program of the first screen prints without its lines of a plus, or of a minus."""
    lines = [line[1:] for line in LOOP.splitlines() if not line.startswith(left_out)]
    printed: list[str] = []
    namespace = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    exec(compile("\n".join(lines), str(README), "exec"), namespace)
    (found,) = (re.findall(r"-?\d+\.\d", each) for each in printed)
    return tuple(map(float, found))


@pytest.mark.parametrize("left_out", [pytest.param("+", marks=pytest.mark.slow), "-"])
def test_the_loop_of_the_first_screen_prints_what_it_says(left_out: str) -> None:
    r"""Except for the last digit: how a fit ends depends on the machine. And nothing warns."""
    said = tuple(map(float, CLAIMS["+-".index(left_out)]))
    assert of_the_loop(left_out) == pytest.approx(said, abs=0.35)
    assert said[1] > 2 if left_out == "+" else said[1] < 1


CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_agrees_with_the_package() -> None:
    assert CITATION["version"] == botorch_risk.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert [each["name"] for each in CITATION["authors"]] == [
        each["name"] for each in PROJECT["authors"]
    ]
    assert set(CITATION["keywords"]) == set(PROJECT["keywords"])


def test_the_page_and_the_changelog_name_the_version() -> None:
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    assert f"version = {{{botorch_risk.__version__}}}" in page
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    latest = re.search(
        r"^## (\d+\.\d+\.\d+)(?: \((\d{4}-\d{2}-\d{2}|unreleased)\))$", changelog, re.M
    )
    assert latest is not None and latest[1] == botorch_risk.__version__
