r"""A page keeps the sections that are not made again."""

from pathlib import Path

import torch

from bench.reproduction.tables import cell, read_curves_by, table, write_sections


def test_a_section_that_is_not_made_again_stays(tmp_path: Path) -> None:
    path = tmp_path / "tables.md"
    write_sections(path, ["### first\n", "one\n", "### second\n", "two\n"])
    assert path.read_text() == "### first\n\none\n\n### second\n\ntwo\n"
    write_sections(path, ["### second\n", "other\n", "### third\n", "three\n"])
    expected = "### first\n\none\n\n### second\n\nother\n\n### third\n\nthree\n"
    assert path.read_text() == expected
    write_sections(path, [])
    assert path.read_text() == expected


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
