r"""The study of coverage: shares by hand, and its programs of decisions with two seeds."""

import sys
from pathlib import Path

import pytest
import torch

from bench.studies.coverage import classes, feasibility
from bench.studies.coverage.report import share_and_half_widths

SEEDS = {True: (0, 1)}


def test_the_share_of_two_sums_and_its_half_widths() -> None:
    part, whole = torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[4.0, 4.0], [0.0, 0.0]])
    assert share_and_half_widths(part, whole) == "0.50 ± 3.18, 0.00"  # 12.706 x 1 / 4
    assert share_and_half_widths(0 * part, whole, digits=3) == "0.000 ± 0.000, 0.000"


def test_classes_are_counted_and_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(classes, "SEEDS", SEEDS)
    monkeypatch.setattr(classes, "DEVELOPMENT", ("branin",))
    monkeypatch.setattr(classes, "RISKS", ("expectation",))
    monkeypatch.setattr(classes, "LOOKS", {"level_set_search": (1,), "truvar": (1, 2)})
    monkeypatch.setattr(sys, "argv", ["classes", "--to", str(tmp_path)])
    classes.main()
    page = capsys.readouterr().out
    assert "branin.expectation.observed.json" in page and "truvar.branin.level.None.json" in page
    assert "| observed | sampled | 1 |" in page and "| None | fitted | 2 |" in page

    kept = tmp_path / "truvar.branin.level.5.json"
    kept.unlink()
    classes.main()
    again = capsys.readouterr().out
    assert again.startswith(f"{kept.name}\n") and ".json" not in again.removeprefix(kept.name)
    assert again.removeprefix(f"{kept.name}\n") in page


def test_rules_are_compared_at_decisions_of_one_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("branin.goldstein-price.at-most", "chance-gramacy")
    problems = {name: feasibility.PROBLEMS[name] for name in names}
    monkeypatch.setattr(feasibility, "SEEDS", SEEDS)
    monkeypatch.setattr(feasibility, "PROBLEMS", problems)
    monkeypatch.setattr(feasibility, "LOOKS", (1, 2))
    monkeypatch.setattr(feasibility, "SIDES", {1: 21, 2: 5})
    monkeypatch.setattr(sys, "argv", ["feasibility", "--to", str(tmp_path)])
    feasibility.main()
    page = capsys.readouterr().out
    assert all(f"\n| {rule} | " in page for rule in feasibility.RULES)
    cases = [int(page.split(f"| {each} | ")[1].split(" | ")[0]) for each in feasibility.INTERVALS]
    assert sum(cases) == 2 * 2 * 2  # problems, rounds, seeds


@pytest.mark.parametrize("name", feasibility.PROBLEMS)
def test_truth_and_constraints_of_a_problem_agree(name: str) -> None:
    problem = feasibility.PROBLEMS[name]()
    streams = [torch.Generator().manual_seed(0)]
    meets_all = torch.ones_like(problem.feasible)
    for each in problem.constraints:
        Z, weights = problem.environment.expand(problem.decisions)
        readings = [problem.read(part.unsqueeze(0), streams)[0, :, 0] for part in Z]
        values = torch.stack(readings)[..., each.outcome]
        risks = each.risk_measure(-values if each.at_most else values, weights)
        meets_all &= risks >= each.limit
    assert (meets_all == problem.feasible).double().mean() > 0.85  # except for the noise
    assert 0.2 < problem.feasible.double().mean() < 0.5
