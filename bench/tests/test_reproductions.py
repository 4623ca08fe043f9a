r"""Every reproduction runs and reports, here with few seeds and rounds."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import Campaign

from bench.reproduction.kde.densities import PAPER_TABLE_2, total_variation
from bench.reproduction.pictures import LOOKS
from bench.tests.campaign_files import ROOT, run_trial
from bench.tests.small_tables import ON_A_TABLE, write_svm_grid

FOLDER = ROOT / "bench" / "reproduction"
RUNS = {  # problems, rounds
    "kde": (["ackley"], 10),
    "rahbo": (["sine", "branin", "sine-variance", "branin-variance"], 11),
    "truvar": (["coast", "coast-travel", "noise-levels", "synthetic-maximum"], 12),
    "uhe": (["uhe-branin", "uhe-h1"], 4),
    "vucb": (["var-branin-discrete", "var-branin-continuous"], 3),
}
MORE = {  # further campaigns: problems, rounds, and where its results are
    "truvar/more": (
        ["synthetic-maximum-anywhere", "coast-lake-ranges", "noise-levels-functions"],
        4,
        "more.sqlite",
    ),
    "truvar/svm_on_grid": (["svm-on-grid", "svm-on-grid-priors"], 4, "svm_on_grid.sqlite"),
    "uhe/trials": (["uhe-branin", "uhe-h1"], 4, "trials.sqlite"),
}
RUNS_IN_ALL = {  # strategies x seeds of each campaign
    "kde/campaign": 5 * 3 * 20
    + 3 * 10
    + 5 * 3 * 10
    + 6 * 4 * 10
    + 5 * 10
    + 6 * 3 * 10
    + 2 * 4 * 10,
    "rahbo/campaign": 2 * 6 * 30 + 2 * 6 * 25 + 3 * 3 * 30 + 3 * 3 * 25 + 3 * 15,
    "truvar/campaign": 4 * 100 + 2 * 100 + 4 * 50 + 4 * 200 + 50,
    "truvar/more": 7 * 100 + 2 * 10 + 4 * 10,
    "uhe/campaign": 9 * 30 + 3 * 9 * 20 + 9 * 10,
    "uhe/lander": 6 * 10,
    "uhe/sampled": 4 * 10 + 30,
    "uhe/trials": 4 * 30 + 3 * 4 * 20,
    "vucb/campaign": 6 * 6 * 30
    + 4 * 4 * 30
    + 2 * 2 * 30
    + 8 * 60
    + 6 * 2 * 20
    + 3 * 10
    + 60
    + 8 * 20
    + 5 * 5,
}


@pytest.mark.parametrize("name", RUNS_IN_ALL)
def test_campaigns_are_what_their_readme_says(name: str) -> None:
    campaign = Campaign.read(FOLDER / f"{name}.py")
    assert sum(len(block.seeds) for block in campaign.blocks()) == RUNS_IN_ALL[name]
    readme = (FOLDER / name).parent / "README.md"
    assert f"campaign run bench/reproduction/{name}.py --out results/" in readme.read_text("utf-8")


def test_every_method_looks_alike_in_all_pictures() -> None:
    blocks = [
        each for name in RUNS_IN_ALL for each in Campaign.read(FOLDER / f"{name}.py").blocks()
    ]
    runs = {block.strategy.removesuffix("-paper") for block in blocks}
    labels = {run.removesuffix("-Matern") for run in runs}  # the same method, another model
    in_tables = {label for label in labels if label.endswith(("-released", "-fitted-kernel"))}
    assert labels - in_tables <= {*LOOKS}
    ours = ("RAHBO", "SBO-KDE", "V-UCB-Prob", "TRUVAR", "UHE-BO")
    assert {LOOKS[label] for label in ours} == {LOOKS["RAHBO"]}


@pytest.mark.parametrize(("name", "variable"), ON_A_TABLE.items())
def test_the_papers_tables_are_asked_for(
    name: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ({}, {variable: str(tmp_path / "none.csv")}):
        monkeypatch.delenv(variable, raising=False)
        for each, value in path.items():
            monkeypatch.setenv(each, value)
        with pytest.raises(ValueError, match=f"Expected {variable} to be the path"):
            Campaign.read(FOLDER / f"{name}.py")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits on few points
@pytest.mark.parametrize("name", RUNS)
def test_runs_and_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTORCH_RISK_SVM_TABLE", str(write_svm_grid(tmp_path)))
    problems, rounds = RUNS[name]
    run_trial(FOLDER / name / "campaign.py", tmp_path / "campaign.sqlite", problems, rounds)
    for path, (of_more, few, out) in MORE.items():
        if path.startswith(name):
            (tmp_path / out).parent.mkdir(exist_ok=True)
            run_trial(FOLDER / f"{path}.py", tmp_path / out, of_more, few)
            problems = problems + of_more
    report = importlib.import_module(f"reproduction.{name}.report")
    folders = ["--results", str(tmp_path), "--to", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["report", *folders])
    report.main()
    page = (tmp_path / "tables.md").read_text(encoding="utf-8")
    for problem in problems:
        assert problem.removeprefix("uhe-") in page
    assert "±" in page
    assert list(tmp_path.glob("*.png"))


@pytest.mark.parametrize("name", PAPER_TABLE_2)
def test_a_learnt_density_is_as_far_as_in_table_2(name: str) -> None:
    mean, _ = PAPER_TABLE_2[name][100]  # of twenty runs; here is one
    assert total_variation(name, 100, seed=0)["Silverman"] == pytest.approx(mean, rel=0.35)
