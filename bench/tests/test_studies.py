r"""Every study runs and reports, here with few seeds and rounds."""

import importlib
import sys
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import Campaign

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
    for problem in problems:
        assert f"### {problem}" in page
    assert "±" in page
