r"""A page keeps the sections that are not made again, with their dates."""

import re
from datetime import date
from pathlib import Path

import pytest
import torch

from bench.reproduction import pages
from bench.reproduction.pages import write_sections
from bench.reproduction.tables import cell, read_curves_by, table


def test_a_section_that_is_not_made_again_keeps_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "tables.md"
    monkeypatch.setattr(pages, "_code", lambda: "commit 1")
    write_sections(path, ["Of three.\n", "### first\n", "one\n", "## second\n", "two\n"])
    stamp = f"Made on {date.today()} by commit"
    first, second = f"### first\n\n{stamp} 1.\n\none\n", f"## second\n\n{stamp} 1.\n\ntwo\n"
    assert path.read_text() == f"Of three.\n\n{first}\n{second}"
    monkeypatch.setattr(pages, "_code", lambda: "commit 2")
    write_sections(path, ["## second\n", "other\n", "### first\n", "one\n", "### third\n", "3\n"])
    second, third = f"## second\n\n{stamp} 2.\n\nother\n", f"### third\n\n{stamp} 2.\n\n3\n"
    expected = f"Of three.\n\n{first}\n{second}\n{third}"
    assert path.read_text() == expected
    write_sections(path, ["### first\n", "one\n"])
    assert path.read_text() == expected


def test_the_code_of_a_page_is_a_commit() -> None:
    assert re.fullmatch(r"commit [0-9a-f]{8}( with changes)?|version .*", pages._code())


def test_curves_are_read_from_the_table_that_was_written() -> None:
    generator = torch.Generator().manual_seed(0)
    values = {name: torch.randn(9, 3, generator=generator).double() for name in ("A", "B-c")}
    rows = [[str(t), *(cell(each[:, t]) for each in values.values())] for t in range(3)]
    other = table(["method", "seeds"], [["A", "9"]])
    page = "\n".join(["### one: after 3\n", other, table(["round", *values], rows), "### two\n"])
    found = read_curves_by(page, "one: after", "round")
    assert found.pop("")[0].tolist() == [0.0, 1.0, 2.0]
    for name, each in values.items():
        mean, half_width = found.pop(name)
        torch.testing.assert_close(mean, each.mean(dim=0), atol=5e-3, rtol=5e-2)
        spread = 2.306 * each.std(dim=0) / 3  # Student's t of eight degrees of freedom
        torch.testing.assert_close(half_width, spread, atol=0, rtol=5e-2)
    assert not found and read_curves_by(page, "three", "round") == {}
