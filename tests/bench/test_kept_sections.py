r"""A page keeps the sections that are not made again."""

from pathlib import Path

from bench.reproduction.tables import write_sections


def test_a_section_that_is_not_made_again_stays(tmp_path: Path) -> None:
    path = tmp_path / "tables.md"
    write_sections(path, ["### first\n", "one\n", "### second\n", "two\n"])
    assert path.read_text() == "### first\n\none\n\n### second\n\ntwo\n"
    write_sections(path, ["### second\n", "other\n", "### third\n", "three\n"])
    expected = "### first\n\none\n\n### second\n\nother\n\n### third\n\nthree\n"
    assert path.read_text() == expected
    write_sections(path, [])
    assert path.read_text() == expected
