r"""The study of shifted distributions runs, resumes and reports, here with two seeds."""

import sys
from pathlib import Path

import pytest
import torch

from bench.studies.shift import loop, report, run
from bench.studies.shift.problems import CUTS, MOVES, Data, Problem, newsvendor, on_grid, problems
from bench.studies.stored_rows import read
from botorch_risk.risk import WassersteinBall

MOVED = ("mean -1", "none", "mean +1")


def few_draws(name: str) -> Problem:
    known = problems()[name]
    return Problem(on_grid(21, 1), known.outcome, known.data, num_draws=8)


def test_profit_and_moves_by_hand() -> None:
    X = torch.tensor([[0.4, 0.3], [0.4, 0.5]], dtype=torch.double)
    profit = newsvendor()(X)
    torch.testing.assert_close(profit, torch.tensor([2.7 + 0.1 - 2.0, 3.6 - 2.0]).double())
    whole, *cut = problems()["newsvendor"].data(3)
    assert list(whole.deployed) == list(MOVES)
    mean, deviation = whole.deployed["none"].mean(), whole.deployed["none"].std()
    moved = whole.deployed["mean +0.5"].mean()
    assert moved.item() == pytest.approx((mean + 0.5 * deviation).item(), abs=0.01)  # clipped at 1
    assert whole.deployed["spread x0.5"].std().item() == pytest.approx(deviation.item() / 2)
    assert [list(each.deployed) for each in cut] == [[name] for name in CUTS]
    low, high = (each.observed for each in cut)
    assert low.min() > whole.deployed["none"].quantile(0.3)
    assert high.max() < whole.deployed["none"].quantile(0.7)
    assert not torch.equal(problems()["newsvendor"].data(4)[0].observed, whole.observed)


def test_a_transport_ball_holds_a_shift_of_its_radius() -> None:
    observed = 0.5 + 0.05 * torch.randn(40, 1, generator=torch.Generator().manual_seed(0)).double()
    contexts = run.contexts_of(few_draws("newsvendor"), 1)
    found = run.radius_of_a_shift(WassersteinBall(0.0), observed, contexts, 0.7)
    assert found == pytest.approx(0.7 * observed.std().item(), rel=0.02)


def test_regret_is_in_units_of_a_random_decision() -> None:
    r"""What is deployed is what was seen: the expectation has no regret, and random decisions 1."""
    demand = 0.5 + 0.1 * torch.linspace(-1, 1, 40, dtype=torch.double)[:, None]
    problem = Problem(on_grid(21, 1), newsvendor(), lambda seed: [], num_draws=4)
    data = Data(demand, {"none": demand})
    rows = [row for b in run.BALLS for row in run.rows_of("one", problem, 0, b, data, ["quarters"])]
    of_mean = [row["regret"] for row in rows if row["ball"] == "none"]
    assert of_mean == [0.0] * len(run.BALLS)
    means = problem.outcomes(demand).mean(dim=-1)
    regrets = (means.max() - means) / (means.max() - means.mean())
    assert regrets.mean().item() == pytest.approx(1)
    assert {row["regret"] for row in rows} <= set(regrets.tolist())
    assert {row["ball"] for row in rows} == {"none", *run.BALLS}


@pytest.mark.slow
def test_runs_resumes_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("gamma newsvendor", "newsvendor")
    monkeypatch.setattr(run, "problems", lambda: {name: few_draws(name) for name in names})
    monkeypatch.setattr(loop, "problems", lambda: {name: few_draws(name) for name in names})
    monkeypatch.setattr(run, "SIZES", (0.2, 0.4, 1.0))
    monkeypatch.setattr(report, "SIZES", (0.2, 0.4, 1.0))
    for seeds in ("1", "2", "2"):
        monkeypatch.setattr(sys, "argv", ["run", *names, "--out", str(tmp_path), "--seeds", seeds])
        run.main()
    rows = read(tmp_path / "newsvendor.jsonl")
    each = len(run.BALLS) * (1 + 3 + len(run.RULES))
    assert len(rows) == 2 * each * (len(MOVES) + len(CUTS))
    assert {row["seed"] for row in read(tmp_path / "gamma newsvendor.jsonl")} == {1000, 1001}

    monkeypatch.setattr(loop, "TESTS", {"newsvendor": loop.TESTS["newsvendor"]})
    monkeypatch.setattr(loop, "BALLS", {"KL": run.BALLS["KL"]})
    monkeypatch.setattr(loop, "ROUNDS", 1)
    monkeypatch.setattr(sys, "argv", ["loop", "--out", str(tmp_path)])
    loop.main()
    assert len(read(tmp_path / "loop.jsonl")) == 2 * 20 * len(MOVES)

    monkeypatch.setattr(report, "BALLS", {"KL": run.BALLS["KL"]})
    monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--to", str(tmp_path)])
    report.main()
    page = (tmp_path / "tables.md").read_text("utf-8")
    assert "Least: " in page
    assert "With outcomes that are learnt" in page
    results = {"heating": report.Results(rows)}
    shown = {"heating": (*MOVED, *[None] * (len(report.SHOWN) - 3))}
    monkeypatch.setattr(report, "PANELS", shown)
    monkeypatch.setattr(report, "LOOKS", {"KL": report.LOOKS["KL"]})
    report.draw(results, "bootstrap 0.5", tmp_path / "shift")
    assert (tmp_path / "shift.pdf").stat().st_size > 1000
