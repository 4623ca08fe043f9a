r"""What the release check runs from the outside works here, and its oldest set is pinned."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.release_check import lower_bounds

OUTSIDE = Path(__file__).with_name("release_outside.py")


@pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning")  # at kinks of CVaR
def test_the_outside_test_passes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(OUTSIDE), run_name="__main__")
    assert capsys.readouterr().out == "works from the outside\n"


def test_the_outside_test_needs_nothing_of_the_repository() -> None:
    assert "tests" not in OUTSIDE.read_text(encoding="utf-8")


def test_the_oldest_set_pins_every_dependency() -> None:
    assert lower_bounds().split() == ["torch==2.4", "gpytorch==1.15.2", "botorch==0.18.1"]
