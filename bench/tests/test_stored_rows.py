r"""A run that was stopped goes back to the rows that it has."""

from pathlib import Path

from bench.studies.stored_rows import append, missing_cases, read

KEY = ("name", "seed")
CASES = [("sine", 0), ("sine", 1), ("branin", 0)]


def test_a_cut_off_line_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    assert read(path) == []
    assert missing_cases(path, KEY, CASES) == CASES
    rows = [{"name": name, "seed": seed, "value": 0.5} for name, seed in CASES]
    assert list(append(path, rows[:2])) == [1, 2]
    whole = path.read_text()
    path.write_text(whole[:-3])  # as a killed run leaves it
    assert read(path) == rows[:1]
    assert missing_cases(path, KEY, CASES) == CASES[1:]
    assert list(append(path, rows[1:])) == [1, 2]
    assert read(path) == rows
    assert missing_cases(path, KEY, CASES) == []
