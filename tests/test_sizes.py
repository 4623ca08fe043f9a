r"""The lines of a made-up package, and the errors of a room that outgrows its budget or moves."""

from pathlib import Path

import pytest

from tests.sizes import faults, lines_of, measured, read, table, write

SOURCE = '''r"""A title.

More of it.
"""

# A comment of its own.
TEXT = """
# no comment
"""  # a comment after code


def f() -> int:
    r"""A title."""
    "no docstring"
    return 1
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for place in ("top", "risk/measures", "risk/balls/mmd", "engine/door", "engine/fit/deep/one"):
        path = tmp_path / "package" / f"{place}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCE)
    return tmp_path / "package"


def test_each_line_counts_once_as_what_it_is() -> None:
    assert lines_of(SOURCE) == {"lines": 15, "docstrings": 5, "comments": 1, "code": 6}
    assert lines_of("") == {"lines": 0, "docstrings": 0, "comments": 0, "code": 0}


def test_rooms_are_top_level_folders_the_root_and_folders_of_the_engine(package: Path) -> None:
    sizes = {room: each["lines"] for room, each in measured(package).items()}
    assert sizes == {"root": 15, "engine": 30, "engine/fit": 15, "risk": 30}
    assert next(iter(sizes)) == "root"


def test_a_budget_is_exceeded_beyond_five_percent(package: Path, tmp_path: Path) -> None:
    file, sizes = tmp_path / "sizes.txt", measured(package)
    write(file, sizes)
    assert [*faults(sizes, read(file))] == []
    sizes["risk"]["lines"] = 105
    assert [*faults(sizes, read(file))] == []
    sizes["risk"]["lines"] = 106
    assert [*faults(sizes, read(file))] == [
        "Expected at most 100 lines of 'risk', or 5 % more. Got 106."
    ]


def test_a_moved_room_is_named_and_writing_again_keeps_reasons(
    package: Path, tmp_path: Path
) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text("root 200 the map\nrisk 100 measures and balls\nwings 300 gone\n")
    assert [*faults(measured(package), read(file))] == [
        "Expected a row of 'engine' in sizes.txt. Got none.",
        "Expected a row of 'engine/fit' in sizes.txt. Got none.",
        "Expected the rooms of the package in sizes.txt. Got 'wings', which it lacks.",
    ]
    write(file, measured(package))
    assert read(file) == {
        "root": (100, "the map"),
        "engine": (100, "as measured"),
        "engine/fit": (100, "as measured"),
        "risk": (100, "measures and balls"),
    }


def test_the_table_has_each_room_and_a_total_that_counts_each_line_once(package: Path) -> None:
    found = table(measured(package), {"root": (100, "the map"), "engine/fit": (100, "fits")})
    rows = [row.split() for row in found.splitlines()]
    assert rows[1] == ["root", "15", "100", "33%", "7%", "40%"]
    assert [row[0] for row in rows] == ["room", "root", "engine", "engine/fit", "risk", "total"]
    assert rows[-1] == ["total", "75", "100", "33%", "7%", "40%"]


@pytest.mark.parametrize("row", ["risk 100", "risk many measures", "risk", "root 1 it comes twice"])
def test_a_row_without_a_number_or_a_reason_is_refused(row: str, tmp_path: Path) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text(f"root 100 the map\n{row}\n")
    with pytest.raises(ValueError, match=f"Got {row!r}"):
        read(file)
