r"""Every reproduction runs and reports, here with few seeds and rounds."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

RUNS = {  # problems, rounds
    "kde": (["ackley"], 3),
    "rahbo": (["sine", "branin", "sine-variance", "branin-variance"], 11),
    "truvar": (["coast", "coast-travel", "noise-levels", "svm", "synthetic-maximum"], 12),
    "uhe": (["uhe-branin", "uhe-h1"], 4),
    "vucb": (["var-branin-discrete", "var-branin-continuous"], 3),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
@pytest.mark.parametrize("name", RUNS)
def test_runs_and_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems, rounds = RUNS[name]
    out = ["--out", str(tmp_path / "out")]
    sizes = ["--seeds", "2", "--rounds", str(rounds)]
    run = importlib.import_module(f"reproduction.{name}.run")
    monkeypatch.setattr(sys, "argv", ["run", *problems, *sizes, *out])
    run.main()
    report = importlib.import_module(f"reproduction.{name}.report")
    monkeypatch.setattr(sys, "argv", ["report", *out, "--to", str(tmp_path)])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    for problem in problems:
        assert problem.removeprefix("uhe-") in page
    assert "±" in page
    assert list(tmp_path.glob("*.png"))
