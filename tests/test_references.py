r"""Works are cited by their keys, which stand in one bibliography: `docs/references.bib`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIBLIOGRAPHY = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^@\w+\{(\w+),\n((?:  .*\n)+)\}$", BIBLIOGRAPHY, flags=re.MULTILINE))
SOURCES = [
    path
    for folder in ("botorch_risk", "bench", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def cited() -> dict[str, str]:
    r"""The keys in docstrings and comments, each with a file that cites it."""
    return {
        key: path.name
        for path in SOURCES
        for key in re.findall(
            r"(?<!\w)\[([A-Z]\w+\d{4}\w+)\](?=_| |$)", path.read_text("utf-8"), re.M
        )
    }


def test_every_citation_has_an_entry_and_every_entry_is_cited() -> None:
    assert cited().keys() == ENTRIES.keys()


def test_entries_are_complete_and_there_once() -> None:
    assert len(ENTRIES) == len(re.findall(r"^@", BIBLIOGRAPHY, flags=re.MULTILINE))
    for key, entry in ENTRIES.items():
        fields = dict(re.findall(r"^  (\w+) *= \{(.*)\},?$", entry, flags=re.MULTILINE))
        assert {"author", "title", "year"} <= fields.keys(), key
        first_author = re.sub(r"\W", "", fields["author"].split(",")[0])
        assert re.fullmatch(rf"{first_author}|{first_author[3:]}", key[: key.index(fields["year"])])
    titles = re.findall(r"\btitle *= \{(.*)\}", BIBLIOGRAPHY)
    assert len(set(titles)) == len(titles)


def test_no_docstring_holds_an_entry() -> None:
    r"""A work is cited by its key, as [Nguyen2021vucb]_, and stands in the bibliography."""
    entry = re.compile(r"^ *\.\. \[\w+\]", flags=re.MULTILINE)
    holding = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if entry.search(path.read_text(encoding="utf-8"))
    }
    assert holding == set()
