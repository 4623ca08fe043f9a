r"""The study of batches: its loops with two seeds, and its tables by hand."""

import json
import sys
from pathlib import Path

import pytest

from bench.studies.batches import loops, report


def test_the_loops_go_on_where_they_stopped_and_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = {name: loops.TASKS[name] for name in ("rahbo-sine", "steps-kg")}
    monkeypatch.setattr(loops, "TASKS", tasks)
    monkeypatch.setattr(loops, "SEEDS", (0, 1))
    monkeypatch.setattr(loops, "SEEDS_OF_RUNNING", (0, 1))
    monkeypatch.setattr(loops, "NUM_EVALUATIONS", 8)
    monkeypatch.setattr(loops, "__file__", str(tmp_path / "loops.py"))
    monkeypatch.setattr(report, "__file__", str(tmp_path / "report.py"))
    files = tmp_path / "files"
    for code in ("after", "before"):
        monkeypatch.setattr(sys, "argv", ["loops", "--to", str(files), "--code", code])
        loops.main()
    written = capsys.readouterr().out
    assert written.count(".json") == 2 * 2 * 4
    loops.main()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "argv", ["loops", "--pack", str(files)])
    loops.main()
    report.main()
    page = capsys.readouterr().out
    assert "| RAHBO | 1 | 4 | +0.00 ± 0.00 |" in page  # the same code twice
    assert "| 12 x 8 steps | 0, 0 |" in page
    row = json.loads((files / "steps-kg.running.after.json").read_text("utf-8"))
    assert min(min(each) for each in row["closest"]) >= 1 / 11 - 1e-9


def test_differences_and_shares_by_hand() -> None:
    first = {"task": "kg-a", "regret": [[1.0, 100.0]], "closest": [[0.0, 0.1], [0.3, 0.4]]}
    second = {"task": "kg-b", "regret": [[10.0, 10.0]], "closest": [[0.5, 0.005], [0.3, 0.4]]}
    zero = {"task": "kg-a", "regret": [[0.0, 1.0]]}
    assert report.values_of(zero).tolist() == [-6.0, 0.0]
    assert report.values_of({**zero, "task": "steps-a"}).tolist() == [0.0, 1.0]
    assert report.difference([(first, second)]) == "+0.00 ± 12.71"  # 12.706 x 1.414 / 1.414
    assert report.difference([(first, second), (second, second)]) == "+0.00 ± 6.35, 0.00"
    assert report.share([first, second], "closest", 0.01) == "25"
    assert report.median_of([first, second]) == "0.300"
