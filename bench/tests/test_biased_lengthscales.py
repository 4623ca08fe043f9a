r"""The study of lengthscales: its functions, its loops, and the tables of its page."""

import math
import sys

import pytest
import torch
from botorch.test_functions import Branin

from bench.studies.biased_lengthscales import loops, report
from bench.tests.campaign_files import ROOT


def test_draws_have_the_covariance_of_their_kernel() -> None:
    X = torch.tensor([[0.2, 0.3], [0.3, 0.3], [0.2, 0.7], [0.6, 0.9]]).double()
    for nu in (2.5, math.inf):
        truth = loops.Truth("a process", 2, (0.2, 0.6), nu)
        seeds = tuple(range(400))
        values = truth.of(seeds)(X.expand(400, -1, -1))
        distance = ((X[:, None] - X[None]) / torch.tensor([0.2, 0.6])).norm(dim=-1)
        root = 5**0.5 * distance
        matern = (1 + root + root.square() / 3) * (-root).exp()
        kernel = (-0.5 * distance.square()).exp() if nu == math.inf else matern
        torch.testing.assert_close(values.T.cov(), kernel, rtol=0, atol=0.2)


def test_test_functions_have_unit_deviation_and_are_maximised() -> None:
    truth = loops.Truth("Branin", 2, function=Branin())
    points = torch.rand(1, 4000, 2, dtype=torch.double)
    values = truth.of((0,))(points)
    assert abs(values.mean()) < 0.1 and abs(values.std() - 1) < 0.1
    best = torch.tensor([[[(math.pi + 5) / 15, 2.275 / 15]]]).double()
    assert truth.of((0,))(best) > values.max() - 1e-3


def test_the_logarithm_of_expected_improvement() -> None:
    u = torch.tensor([2.0, 0.0, -4.99, -5.01, -40.0]).double()
    normal = torch.distributions.Normal(0.0, 1.0)
    plain = normal.log_prob(u).exp() + u * normal.cdf(u)
    found = loops.log_ei(u)
    torch.testing.assert_close(found[:3], plain[:3].log())
    assert abs(found[3] - found[2]) < 0.3 and found[4].isfinite() and found[4] < found[3]


def test_a_row_has_what_the_report_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "NUM_READINGS", {1: 9})
    monkeypatch.setattr(loops, "NUM_RANDOM", {1: 3})
    (truth,) = [each for each in loops.TRUTHS if each.dim == 1]
    row = loops.row_of(truth, (100, 101))
    assert row["X"][0] != row["X"][1] and len(row["X"][0]) == 9
    for name in report.ESTIMATES:
        assert len(row[name]["held"]) == 2 and all(0 <= each <= 1 for each in row[name]["held"])
    kinds = {"trusted", "not looked", "distrusted"}
    assert set(row["point"]["verdict"]) <= kinds and set(row["random"]["verdict of rows"]) <= kinds
    for part in (report.of_estimates, report.of_functions, report.of_verdicts, report.of_factors):
        assert part([row, row]).startswith("| ")


def test_the_page_has_the_tables_of_the_stored_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["report"])
    report.main()
    page = (ROOT / "bench/studies/biased_lengthscales/README.md").read_text("utf-8")
    assert capsys.readouterr().out.strip() in page
