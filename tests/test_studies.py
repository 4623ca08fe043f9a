r"""Every study runs and reports, here with few seeds and rounds."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

RUNS = {  # problems, rounds
    "chance_constraints": (["chance-branin"], 1),
    "frontier": (["portfolio-policy"], 2),
    "repeats": (["repeats-sine"], 2),
    "risk_measures": (["study-branin-var"], 30),
    "two_objectives": ([], 1),
}
CHEAP = {
    "chance_constraints": ("confidence-bound", "random"),
    "repeats": ("k = 5", "adaptive"),
    "risk_measures": ("confidence-bound", "random"),
}
TIMED = ("risk_measures", "two_objectives")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
@pytest.mark.parametrize("name", RUNS)
def test_runs_and_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems, rounds = RUNS[name]
    out = ["--out", str(tmp_path / "out")]
    sizes = ["--seeds", "2", "--rounds", str(rounds)]
    run = importlib.import_module(f"studies.{name}.run")
    monkeypatch.setattr(sys, "argv", ["run", *problems, *sizes, *out])
    if name in CHEAP:  # without methods that loop over BoTorch's, and most fixed numbers of repeats
        parts = [part for part in run.PARTS if part.labels[0] in CHEAP[name]]
        monkeypatch.setattr(run, "PARTS", parts)
    run.main()
    report = importlib.import_module(f"studies.{name}.report")
    monkeypatch.setattr(sys, "argv", ["report", *out, "--to", str(tmp_path)])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    if name in TIMED:
        timing = importlib.import_module(f"studies.{name}.timing")
        monkeypatch.setattr(sys, "argv", ["timing", *out, "--to", str(tmp_path)])
        timing.main()
        seconds = (tmp_path / "timing.md").read_text(encoding="utf-8")
        assert "| random | 0.00" in seconds
        assert "| of 2 at once [s] |" in seconds
    for problem in problems:
        assert f"### {problem}" in page
    assert "±" in page
