r"""Every study runs and reports, here with few seeds and rounds."""

import importlib
import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch_risk_bench.campaigns import Campaign

from bench.studies import stored_rows
from bench.tests.campaign_files import ROOT, run_trial

FOLDER = ROOT / "bench" / "studies"
RUNS: dict[str, tuple[list[str], int]] = {  # problems, rounds
    "chance_constraints": (["chance-branin"], 1),
    "frontier": (["portfolio-policy"], 2),
    "repeats": (["repeats-sine"], 2),
    "risk_measures": (["study-branin-var"], 30),
    "two_objectives": ([], 1),
}
RUNS_IN_ALL = {  # strategies x seeds of each campaign
    "chance_constraints": 2 * (200 + 50),
    "frontier": 4 * 10 + 4 * 4,
    "repeats": 5 * 9 * 32,
    "risk_measures": 4 * 4 * 20,
    "two_objectives": 4 * 20,
    "when_it_pays": 20 * (18 * 2 + 2 * 8 + 16 * 4),
}
CHEAP = {  # without methods that loop over BoTorch's, and most fixed numbers of repeats
    "chance_constraints": ("confidence-bound", "random"),
    "repeats": ("k = 5", "adaptive"),
    "risk_measures": ("confidence-bound", "random"),
}
TIMED = ("risk_measures", "two_objectives")

NEEDS_HETGPY = pytest.mark.skipif(
    importlib.util.find_spec("hetgpy") is None, reason="needs hetgpy, the extra `peers`"
)


@pytest.mark.parametrize("name", RUNS_IN_ALL)
def test_campaigns_are_what_their_readme_says(name: str) -> None:
    campaign = Campaign.read(FOLDER / name / "campaign.py")
    assert sum(len(block.seeds) for block in campaign.blocks()) == RUNS_IN_ALL[name]
    readme = (FOLDER / name / "README.md").read_text("utf-8")
    assert f"campaign run bench/studies/{name}/campaign.py --out results/" in readme


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
@pytest.mark.parametrize("name", RUNS)
def test_runs_and_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems, rounds = RUNS[name]
    store = tmp_path / "campaign.sqlite"
    run_trial(FOLDER / name / "campaign.py", store, problems, rounds, CHEAP.get(name, ()))
    report = importlib.import_module(f"studies.{name}.report")
    folders = ["--results", str(tmp_path), "--to", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["report", *folders])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    if name in TIMED:
        timing = importlib.import_module(f"studies.{name}.timing")
        monkeypatch.setattr(sys, "argv", ["timing", *folders])
        timing.main()
        seconds = (tmp_path / "timing.md").read_text(encoding="utf-8")
        assert "| random | 0.00" in seconds
        assert "| of 2 at once [s] |" in seconds
    for problem in problems:
        assert f"### {problem}" in page
    assert "±" in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # copies are named
def test_faults_of_learnt_noise_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = importlib.import_module("bench.studies.learnt_noise.faults")
    given = ["faults", "forrester-constant", "--repeats", "3", "--seeds", "1", "--out"]
    monkeypatch.setattr(sys, "argv", [*given, str(tmp_path)])
    faults.main()
    rows = stored_rows.read(tmp_path / "faults.jsonl")
    found = {(row["fault"], row["trim"]): row for row in rows}
    assert len(found) == len(rows) == 8
    assert found["none", None]["merged"] == found["none", 5.0]["dropped"] == 0
    assert found["copies", None]["merged"] == found["near copies", None]["merged"] == 4
    assert found["wrong", 5.0]["hits"] == found["wrong", 5.0]["wrong"] == 1
    assert found["wrong", 5.0]["nlpd"] < found["wrong", None]["nlpd"] - 0.1
    assert "| gaussian | copies | None | 3 |" in capsys.readouterr().out


@NEEDS_HETGPY
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
def test_learnt_noise_runs_resumes_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("bench.studies.learnt_noise.run")
    report = importlib.import_module("bench.studies.learnt_noise.report")
    problems, out = ["forrester-constant", "waves-student"], ["--out", str(tmp_path)]
    monkeypatch.setattr(
        sys, "argv", ["run", *problems, "--repeats", "1", "2", "--seeds", "2", *out]
    )
    run.main()
    rows = stored_rows.read(tmp_path / "rows.jsonl")
    assert len(rows) == 2 * 2 * (2 * len(run.METHODS) - len(run.NEEDS_REPEATS))
    store = tmp_path / "rows.jsonl"
    store.write_text("".join(store.read_text(encoding="utf-8").splitlines(True)[:-3]) + '{"pro')
    run.main()  # cut off in the middle of a line, as a killed run leaves it
    again = stored_rows.read(store)
    timeless = [[{**row, "seconds": 0.0} for row in listed] for listed in (rows, again)]
    assert timeless[0] == timeless[1]
    folders = ["--results", str(tmp_path), "--to", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["report", *folders])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "of hetGPy, better kernel in" in page and "| forrester-constant | 1 |" in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
def test_kinds_of_evidence_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = importlib.import_module("bench.studies.repeats.evidence")
    monkeypatch.setattr(evidence, "BUDGET", 60)
    monkeypatch.setattr(evidence, "REPORTED", (50, 60))
    monkeypatch.setattr(sys, "argv", ["evidence", "sine", "--seeds", "2", "--out", str(tmp_path)])
    evidence.main()
    rows = stored_rows.read(tmp_path / "rows.jsonl")
    assert len(rows) == len(evidence.STRATEGIES) * len(evidence.EVIDENCE)
    for row in rows:
        for found in row["regrets"].values():
            assert len(found) == 2 and all(-1e-9 <= regret < 3 for regret in found)
    assert "| adaptive | sine |" in capsys.readouterr().out


def test_readings_are_grouped_by_their_point() -> None:
    tables = importlib.import_module("bench.studies.learnt_noise.real_tables")
    inputs = np.array([[2.0, 5.0], [4.0, 5.5], [2.0, 5.0], [3.0, 6.0]])
    readings = np.array([1.0, 2.0, 4.0, 3.0])
    table = tables.by_points(inputs, readings)
    assert table.X.tolist() == [[0.0, 0.0], [0.5, 1.0], [1.0, 0.5]]
    expected = (torch.tensor([[1.0, 4.0], [3.0, math.nan], [2.0, math.nan]]) - 2.5) / 1.25**0.5
    torch.testing.assert_close(table.Y, expected.double(), equal_nan=True)


def test_densities_of_held_out_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = importlib.import_module("bench.studies.learnt_noise.real_tables")
    methods = importlib.import_module("bench.studies.learnt_noise.methods")

    def normal(shift: float) -> Any:
        def predict(X: torch.Tensor, Y: torch.Tensor, test_X: torch.Tensor) -> Any:
            assert not (test_X.unsqueeze(1) == X).all(dim=-1).any()  # a point is in one part
            zeros = torch.zeros(len(test_X), dtype=torch.double)
            return methods.Prediction(zeros + shift, zeros + 0.25, zeros + 0.75)

        return predict

    X = torch.linspace(0, 1, 10, dtype=torch.double).unsqueeze(-1)
    Y = torch.full((10, 2), math.nan, dtype=torch.double)
    Y[:, 0] = 1.0
    table = tables.Table(X, Y)
    monkeypatch.setattr(tables, "TABLES", {"ones": lambda: table, "first": lambda: table})
    compared = {"ours": normal(1.0), "ours, spread": normal(1.0)}
    monkeypatch.setattr(tables, "COMPARED", compared | {"hetGPy, better kernel": normal(0.0)})
    monkeypatch.setattr(sys, "argv", ["real_tables", "--splits", "2", "--out", str(tmp_path)])
    tables.main()
    page = capsys.readouterr().out
    assert "| ones | 0.919 | 0.919 | 1.419 | -0.500 ± 0.000 |" in page  # log(2 pi) / 2, + 1 / 2
    assert "| first | 0.919 |  | 1.419 |" in page


def test_problems_of_learnt_noise_are_scaled_and_paired() -> None:
    problems = importlib.import_module("bench.studies.learnt_noise.problems")
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
    run = importlib.import_module("bench.studies.learnt_noise.run")
    problems = importlib.import_module("bench.studies.learnt_noise.problems")
    data = problems.draw(problems.PROBLEMS["branin-constant"], 2, seed=0)
    noise = torch.full_like(data.test_f, 0.3**2)
    found = run.scores(run.Prediction(data.test_f, 1e-12 * noise, noise), data)
    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.3**2)
    assert abs(found["nlpd"] - entropy) < 0.15 and found["f"] == 0.0
    assert abs(found["noise"]) < 1e-12 and found["covered_f"] == 1.0
    assert abs(found["covered_reading"] - 0.95) < 0.03


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
def test_ax_benchmark_runs_resumes_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("bench.studies.ax_benchmark.run")
    report = importlib.import_module("bench.studies.ax_benchmark.report")
    arguments = ["run", "mccormick-context", "--seeds", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    run.main()
    store = tmp_path / "rows.jsonl"
    rows = stored_rows.read(store)
    assert len(rows) == 2 * len(run.METHODS)
    store.write_text("".join(store.read_text(encoding="utf-8").splitlines(True)[:-1]) + '{"pro')
    run.main()  # cut off in the middle of a line, as a killed run leaves it
    timeless = [
        [{**row, "seconds": 0.0} for row in listed] for listed in (rows, stored_rows.read(store))
    ]
    assert timeless[0] == timeless[1]
    folders = ["--results", str(tmp_path), "--to", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["report", *folders])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "### mccormick-context: 2 seeds" in page and "| Ax |" in page


def test_problems_for_the_benchmark_of_ax_observe_what_they_say() -> None:
    problems = importlib.import_module("bench.studies.ax_benchmark.problems")
    for build in problems.SETTINGS.values():
        setting = build()
        lower, upper = setting.decisions
        x = lower + 0.37 * (upper - lower)
        assert setting.risk(x) <= setting.optimum + 1e-6
        once, again, other = (repr(setting.observe(x, seed, 7)) for seed in (3, 3, 4))
        assert once == again != other
        assert list(setting.observe(x, 3, 7)) == [problems.OUTCOME, *setting.beside]
    branin = problems.SETTINGS["branin-noise"]()
    x = torch.tensor([5.0, 5.0], dtype=torch.double)
    seen = torch.tensor([branin.observe(x, 0, trial)["outcome"] for trial in range(2000)])
    mean, level = branin.problem.evaluate_true(x), branin.problem.noise_variance(x).sqrt()
    assert abs(seen[:, 0].mean() - mean) < 4 * level / 6000**0.5
    assert abs(seen[:, 1].square().mean() * 3 / level**2 - 1) < 0.1  # s^2 = k sem^2
