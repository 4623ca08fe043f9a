r"""README.md and CITATION.cff say what is so."""

import re
import tomllib
from collections import Counter
from itertools import chain
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


def test_three_lines_are_changed() -> None:
    for sign in "+-":
        assert len([line for line in LOOP.splitlines() if line.startswith(sign)]) == 3


@pytest.mark.parametrize("left_out", "+-")
def test_the_loop_of_the_first_screen_prints_what_it_says(left_out: str) -> None:
    r"""Except for the last digit: how a fit ends depends on the machine. And nothing warns."""
    said = tuple(map(float, CLAIMS["+-".index(left_out)]))
    assert of_the_loop(left_out) == pytest.approx(said, abs=0.35)
    assert said[1] > 2 if left_out == "+" else said[1] < 1


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) > 20
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_it_is_short_and_names_what_make_does() -> None:
    assert len(TEXT.splitlines()) <= 150
    targets = re.findall(r"^make (\S+)", TEXT, flags=re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test", "lint", "docs"} <= set(targets)
    assert [name for name in targets if f"\n{name}: " not in makefile] == []


VERDICTS = ("holds", "partly", "does not hold", "undecided", "not tested")


def claims() -> dict[str, list[list[str]]]:
    r"""The rows of each paper in bench/reproduction/README.md."""
    table = (ROOT / "bench" / "reproduction" / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^\[Page\]\((\w+)/.*?^\|---.*?\n(.*?)\n\n", table, re.M | re.S)
    return {
        name: [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]
        for name, rows in sections
    }


def test_the_scoreboard_counts_the_verdicts() -> None:
    assert len(claims()) == 5
    for name, rows in claims().items():
        counts = Counter(verdict for _, _, verdict, *_ in rows)
        (said,) = re.findall(rf"\(bench/reproduction/{name}/README.md\) \|(.*)\|", TEXT)
        assert [int(cell) for cell in said.split("|")] == [counts[word] for word in VERDICTS], name
        assert not {*counts} - {*VERDICTS}, name


def test_a_verdict_has_ten_seeds_and_no_cell_is_empty() -> None:
    for figure, claim, verdict, seeds, found, ours in chain(*claims().values()):
        assert figure and claim and found and ours
        if verdict not in ("undecided", "not tested") and "time" not in ours:  # of a clock
            assert int(seeds) >= 10, claim


def test_the_speed_is_the_stored_one() -> None:
    tables = (ROOT / "bench" / "speed" / "README.md").read_text(encoding="utf-8")
    stored = re.findall(r"\d[\d.]*x", tables)
    cells = re.findall(r"\| (\d[\d.]*x(?: to \d[\d.]*x)?) \|", TEXT)
    assert len(cells) == 3
    said = [figure for cell in cells for figure in cell.split(" to ")]
    assert [figure for figure in said if figure not in stored] == []


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
