r"""The paper has the sections that its journal asks for, and cites what its bibliography has."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "paper"
SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "References",
]


def text() -> str:
    return (FOLDER / "paper.md").read_text(encoding="utf-8")


def test_the_sections_are_those_of_the_journal_in_its_length() -> None:
    assert re.findall(r"^# (.*)$", text(), flags=re.MULTILINE) == SECTIONS
    assert 750 <= len(text().split()) <= 1750


def test_every_citation_is_in_the_bibliography_and_every_entry_is_cited() -> None:
    keys = re.findall(r"^@\w+\{(\w+),", (FOLDER / "paper.bib").read_text("utf-8"), re.MULTILINE)
    assert sorted(set(re.findall(r"@(\w+)", text()))) == sorted(keys)
