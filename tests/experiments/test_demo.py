r"""What the demonstration says of measured forests; that it runs is tested with the slow tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from botorch_risk.experiments import demo
from botorch_risk.experiments.plots import save_png

# Mean and standard deviation of each seed's forest: the averse ones lose 0.001 and vary less.
SCORES = {
    demo.AVERSE: torch.tensor([[0.950, 0.010], [0.952, 0.012], [0.951, 0.011]]).double(),
    "GP-UCB": torch.tensor([[0.951, 0.030], [0.953, 0.033], [0.952, 0.031]]).double(),
    demo.NEUTRAL: torch.tensor([[0.940, 0.010], [0.962, 0.012], [0.951, 0.011]]).double(),
}
REPORTED = {label: torch.tensor([[50.0, 10.0, 7.0]] * 3) for label in SCORES}


def test_the_page_tells_a_difference_from_none() -> None:
    page = demo._page(REPORTED, SCORES, seeds=3, rounds=20, fresh=100)
    assert "| RAHBO | 0 | 50, 10, 7 | 0.9500 | 0.0100 | 0.9480 |" in page
    variances = [(0.030**2 - 0.010**2), (0.033**2 - 0.012**2), (0.031**2 - 0.011**2)]
    gain = 20 * sum(variances) / 3 - 0.001
    assert f"against GP-UCB: mean-variance higher by {gain:.4f} +- " in page
    assert f"against {demo.NEUTRAL}: no difference that 3 seeds can show" in page


def test_the_picture_shows_every_forest(tmp_path: Path) -> None:
    figure = demo._picture(SCORES)
    (axes,) = figure.axes
    points = [each for each in axes.collections if len(each.get_offsets()) == 3]
    assert len(points) == len(SCORES)
    assert save_png(figure, tmp_path / "demo.png").stat().st_size < 200_000


@pytest.mark.slow
def test_runs_in_its_quick_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(quick=True, out=tmp_path)
    page = (tmp_path / "demo.md").read_text(encoding="utf-8")
    assert page in capsys.readouterr().out
    assert all(f"| {label} | 1 |" in page for label, _, _ in demo.REPORTS)
