from __future__ import annotations

import re
import sys

import pytest
from botorch_risk_bench.campaigns import progress
from botorch_risk_bench.campaigns.progress import Bar
from botorch_risk_bench.campaigns.worker import Failure

from tests.bench.campaigns.small import small


def test_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Bar("night", total=100, done=20) as bar:
        for clock[0] in (10.0, 20.0, 45.0, 60.0):
            bar.advance(10)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "night: 30 of 100 rounds",  # at once
        "night: 50 of 100 rounds",  # half a minute later
        "night: 60 of 100 rounds",  # at the end
    ]


def test_the_time_left_is_that_of_the_rounds_of_this_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Bar("night", total=100, done=40) as bar:
        clock[0] = 60.0
        bar.advance(20)  # 20 a minute, 40 are left
    assert "60 of 100 rounds, 0 blocks failed, 02:00 left" in capsys.readouterr().err


def test_a_bar_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Bar("night", total=10, done=3) as bar:
        bar.advance(2)
        bar.fail(small().blocks()[0], Failure(4, "no convergence"))
    shown = capsys.readouterr().err
    assert re.search(r"night:  50%.* 5/10 ", shown)
    assert "failed: quadratic, averse, default, seeds 3 to 4, round 4: no convergence" in shown


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("night", total=10, done=0, show=False) as bar:
        bar.advance(2)
        bar.fail(small().blocks()[0], Failure(4, "no convergence"))
    assert capsys.readouterr().err == ""
