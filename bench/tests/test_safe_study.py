r"""The study of safe exploration: its counts by hand, and its table from the stored runs."""

import sys

import pytest

from bench.studies.safe import report
from bench.tests.campaign_files import ROOT


def test_a_recommendation_that_is_unsafe_counts_as_infinite_regret() -> None:
    rounds = report.NUM_ROUNDS
    row = {
        "strategy": "safe",
        "safe": [[True, False, True]] * 2 + [[True, True, True]] * (rounds - 2),
        "regret": [[0.1, 0.2, 0.3]] * (rounds + 1),
        "recommended_safe": [[True, True, True]] * rounds + [[False, False, True]],
    }
    page = report.summary([row])
    assert "| safe | 2 of 90 | 1 of 3 | 0.20 | 0.20 | 0.20 | inf | inf | 3 | 2 |" in page


def test_the_table_of_the_page_comes_from_the_stored_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["report"])
    report.main()
    page = (ROOT / "bench/studies/safe/README.md").read_text("utf-8")
    assert capsys.readouterr().out.strip() in page
