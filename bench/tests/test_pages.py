r"""Every interval on the page of a paper or study is in a table of its folder."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from bench.tests.campaign_files import ROOT

STUDIES = ("shift", "when_it_pays")  # others keep their tables on the page itself
FOLDERS = [
    *sorted(each.parent for each in ROOT.glob("bench/reproduction/*/report.py")),
    *(ROOT / "bench" / "studies" / name for name in STUDIES),
]
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|\.\d+"
INTERVAL = re.compile(rf"({NUMBER}) ± ({NUMBER})")
UNITS = (1, 1000)  # a page may show thousandths
Interval = tuple[Decimal, Decimal]


def tables_of(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text("utf-8")
        for path in folder.rglob("*.md")
        if path.name != "README.md"
    }


def intervals(text: str) -> set[Interval]:
    r"""Sizes and half-widths; no signs, since a page may turn a difference round."""
    found = INTERVAL.findall(text)
    return {(Decimal(a.replace(",", "")), Decimal(b.replace(",", ""))) for a, b in found}


def rounds_to(shown: Decimal, value: Decimal) -> bool:
    return abs(shown - value) <= Decimal("0.5").scaleb(int(shown.as_tuple().exponent))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.name)
def test_every_interval_of_a_page_is_in_a_table(folder: Path) -> None:
    pooled = [path.read_text("utf-8") for path in folder.parent.glob("pooled.md")]
    tables = intervals("\n".join([*tables_of(folder).values(), *pooled]))
    of_page = intervals((folder / "README.md").read_text("utf-8"))
    assert of_page
    missing = {
        f"{size} ± {half_width}"
        for size, half_width in of_page
        if not any(
            rounds_to(size, unit * of_table[0]) and rounds_to(half_width, unit * of_table[1])
            for of_table in tables
            for unit in UNITS
        )
    }
    assert missing == set()


@pytest.mark.parametrize("folder", FOLDERS[: -len(STUDIES)], ids=lambda each: each.name)
def test_a_page_states_how_many_comparisons_its_tables_hold(folder: Path) -> None:
    page = (folder / "README.md").read_text("utf-8")
    for name, text in tables_of(folder).items():
        total = sum(map(int, re.findall(r"^(\d+) comparisons?\b", text, flags=re.MULTILINE)))
        stated = re.search(rf"(?:tables hold|{name}(?: holds)?) {total:,}\b", page)
        assert stated or not total, f"{name} holds {total:,} comparisons"
