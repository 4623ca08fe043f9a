r"""CITATION.cff has what its format requires, and says what the package says of itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import botorch_risk

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_required_fields_are_there() -> None:
    assert {"cff-version", "message", "title", "authors"} <= CITATION.keys()
    assert re.fullmatch(r"1\.\d+\.\d+", CITATION["cff-version"])
    allowed = {"abstract", "keywords", "license", "type", "version"}
    assert CITATION.keys() - allowed == {"cff-version", "message", "title", "authors"}
    people, entities = {"family-names", "given-names"}, {"name"}
    assert all(people <= each.keys() or entities <= each.keys() for each in CITATION["authors"])


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
