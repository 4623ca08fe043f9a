r"""Every study runs and reports, here with few seeds and rounds."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from pathlib import Path

import pytest
import torch

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

NEEDS_HETGPY = pytest.mark.skipif(
    importlib.util.find_spec("hetgpy") is None, reason="needs hetgpy, the extra `benchmarks`"
)


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


@NEEDS_HETGPY
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
def test_learnt_noise_runs_resumes_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("studies.learnt_noise.run")
    report = importlib.import_module("studies.learnt_noise.report")
    problems, out = ["forrester-constant", "waves-student"], ["--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["run", *problems, "--repeats", "2", "--seeds", "2", *out])
    run.main()
    rows = run.read(tmp_path / "rows.jsonl")
    assert len(rows) == 2 * 2 * len(run.METHODS)
    store = tmp_path / "rows.jsonl"
    store.write_text("".join(store.read_text(encoding="utf-8").splitlines(True)[:-3]) + '{"pro')
    run.main()  # cut off in the middle of a line, as a killed run leaves it
    again = run.read(store)
    timeless = [[{**row, "seconds": 0.0} for row in listed] for listed in (rows, again)]
    assert timeless[0] == timeless[1]
    monkeypatch.setattr(sys, "argv", ["report", *out, "--to", str(tmp_path)])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "ours against hetGPy" in page and "| forrester-constant | 2 |" in page


def test_problems_of_learnt_noise_are_scaled_and_paired() -> None:
    problems = importlib.import_module("studies.learnt_noise.problems")
    assert len(problems.PROBLEMS) == 20
    for problem in problems.PROBLEMS.values():
        few, many = (problems.draw(problem, k, seed=3) for k in (2, 5))
        assert few.X.shape == (min(20 * problem.dimension, 100), problem.dimension)
        assert torch.equal(few.X, many.X) and torch.equal(few.test_f, many.test_f)
        assert abs(few.test_f.mean()) < 0.1 and abs(few.test_f.std() - 1) < 0.1
        standard = (few.test_Y - few.test_f) / few.test_noise.sqrt()
        middle = standard.abs().median().item()  # Student's quartile over its root of 3
        assert abs(middle - (0.442 if problem.tail == "student" else 0.674)) < 0.12


def test_scores_of_a_perfect_prediction() -> None:
    run = importlib.import_module("studies.learnt_noise.run")
    problems = importlib.import_module("studies.learnt_noise.problems")
    data = problems.draw(problems.PROBLEMS["branin-constant"], 2, seed=0)
    noise = torch.full_like(data.test_f, 0.3**2)
    found = run.scores(run.Prediction(data.test_f, 1e-12 * noise, noise), data)
    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.3**2)
    assert abs(found["nlpd"] - entropy) < 0.15 and found["f"] == 0.0
    assert abs(found["noise"]) < 1e-12 and found["covered_f"] == 1.0
    assert abs(found["covered_reading"] - 0.95) < 0.03
