r"""The study of stopping: stops, errors and the factor by hand, and the tables of its page."""

import sys
from typing import Any

import pytest

from bench.studies.stopping import report, two_looks
from bench.tests.campaign_files import ROOT

LEVELS = len(report.LEVELS)


def row(gaps: list[float], regrets: list[float], first: float = 1.0) -> dict[str, Any]:
    r"""Two runs alike, of six looks."""
    quantiles = [[[gap, gap] for _ in range(LEVELS)] for gap in gaps]
    return {
        "pair": "a",
        "quantiles": quantiles,
        "regret": [[regret, regret] for regret in regrets],
        "first": [first, first],
    }


def test_a_run_stops_at_the_first_gap_within_epsilon() -> None:
    gaps = [0.5, 0.25, 0.2, 0.05, 0.2, 0.0]
    right = row(gaps, [0.4, 0.2, 0.1, 0.05, 0.0, 0.0])
    number, wrong, looks = report.stops([right], share=0.3, factor=1.0)
    assert (number, wrong, looks.tolist()) == (2, 0, [1, 1])
    number, wrong, looks = report.stops([right], share=0.1, factor=2.0)
    assert (number, wrong, looks.tolist()) == (2, 0, [3, 3])
    number, wrong, looks = report.stops([right], share=0.03, factor=1.0)
    assert (number, wrong, looks.tolist()) == (2, 0, [5, 5])
    number, wrong, looks = report.stops([right], share=0.2, factor=1.0, in_a_row=2)
    assert (number, wrong, looks.tolist()) == (2, 0, [3, 3])  # 0.2 and 0.05
    never = row([1.0] * 6, [0.5] * 6)
    assert report.stops([never], share=0.3, factor=1.0)[0] == 0


def test_a_stop_with_a_larger_regret_is_wrong_and_asks_for_a_factor() -> None:
    hasty = row([0.18, 0.18, 0.02, 0.01, 0.0, 0.0], [0.9, 0.5, 0.2, 0.1, 0.0, 0.0])
    assert report.stops([hasty], share=0.3, factor=1.0)[:2] == (2, 2)
    assert report.calibrated([hasty], share=0.3) == 2.0  # it then stops at the third look
    assert report.calibrated([row([0.0] * 6, [1.0] * 6)], share=0.3) == float("inf")
    page = report.summary([hasty, hasty])
    assert "| 0.3 | all | 1.0 | 4 of 4 | 1.000 (" in page and "{0.3: 2.0" in page
    widened = "| 5 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 | 1.000 | 1.000 |"
    assert widened in report.coverage([hasty])  # 5 x 0.18 is as much as 0.9


def test_the_tables_of_the_page_come_from_the_stored_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["report"])
    report.main()
    two_looks.main()
    printed = {line.replace(" ", "") for line in capsys.readouterr().out.splitlines()}
    page = (ROOT / "bench/studies/stopping/README.md").read_text("utf-8").splitlines()
    rows = [line.replace(" ", "") for line in page if line.startswith(("| 0.", "| 5 |", "| 30 |"))]
    missing = [row for row in rows if not any(row.rstrip("|") in each for each in printed)]
    assert len(rows) > 15 and missing == []
