r"""What the demonstration says of measured policies; that it runs is tested with the slow tests."""

from pathlib import Path

import pytest
import torch
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.problems import PortfolioPolicy
from botorch_risk_bench.problems.portfolio_policy import HELD_OUT_YEARS, TRAINING_YEARS
from botorch_risk_bench.reports import demo
from botorch_risk_bench.reports.frontier import bought_and_paid
from botorch_risk_bench.reports.plots import save_png

NEUTRAL, _, MIDDLE, _ = demo.LABELS
POLICIES = {
    label: torch.tensor([[4.0, 1.0, 2.0], [52.0, 10.0, leverage]]).double()
    for label, leverage in zip(demo.LABELS, (2.0, 1.8, 1.2, 0.4), strict=True)
}
# Mean and standard deviation in percent of the policies of three seeds.
SCORES = {
    label: torch.tensor([[mean, risk], [mean + 4, risk + 6], [mean + 2, risk + 1]]).double()
    for label, mean, risk in zip(
        demo.LABELS, (55.0, 32.0, 19.0, 9.0), (172.0, 35.0, 22.0, 10.0), strict=True
    )
}


def test_scores_are_those_of_years_that_nothing_was_chosen_by() -> None:
    assert TRAINING_YEARS[1] < HELD_OUT_YEARS[0]
    later = PortfolioPolicy(years=HELD_OUT_YEARS)
    scores = demo.measured(later, POLICIES[MIDDLE])
    returns = 100 * later.returns(POLICIES[MIDDLE])
    torch.testing.assert_close(scores[:, 0], returns.mean(dim=-1))
    torch.testing.assert_close(scores[:, 1], returns.std(dim=-1, correction=0))


def test_the_page_says_in_a_sentence_what_was_bought_and_what_it_cost() -> None:
    page = demo.page_of(POLICIES, {k: v[:2] for k, v in SCORES.items()}, rounds=40)
    half = bought_and_paid(SCORES[MIDDLE][:2], SCORES[NEUTRAL][:2], " points")
    assert f"2007 to 2022, by which nothing was chosen, risk aversion 2 {half}" in page
    assert "150" in half and "36" in half and "(2 paired seeds)" in page
    assert "not advice" in page and "survived" in page
    assert f"| {MIDDLE} | 1 | 52, 10, 1.20 | 23.0 | 28.0 |" in page


def test_each_risk_aversion_is_compared_by_its_own_measure() -> None:
    lines = demo.page_of({}, SCORES, rounds=40).splitlines()
    for label, risk_aversion in zip(demo.LABELS[1:], demo.RISK_AVERSIONS, strict=True):
        own, other = (
            each[:, 0] / 100 - risk_aversion * (each[:, 1] / 100) ** 2
            for each in (SCORES[label], SCORES[NEUTRAL])
        )
        gain = paired_difference(own, other)
        (line,) = [each for each in lines if each.startswith(f"| {label} |")]
        assert line.endswith(f"| {gain.mean:.3f} ± {gain.half_width:.3f} |")


def test_the_picture_names_every_group(tmp_path: Path) -> None:
    figure = demo.picture_of(PortfolioPolicy(years=HELD_OUT_YEARS), SCORES)
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.texts]  # from the highest mean
    assert names[0] == "risk-neutral: 57 ± 174 %"
    assert names[1:] == [
        "risk aversion 0.5: 34 ± 37 %",
        "risk aversion 2: 21 ± 24 %",
        "risk aversion 8: 11 ± 12 %",
    ]
    assert save_png(figure, tmp_path / "demo.png").stat().st_size < 200_000


@pytest.mark.slow
def test_runs_in_its_quick_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(quick=True, out=tmp_path)
    page = (tmp_path / "demo.md").read_text(encoding="utf-8")
    assert page in capsys.readouterr().out
    assert all(f"| {label} | 1 |" in page for label in demo.LABELS)
    assert (tmp_path / "demo.png").stat().st_size < 200_000


@pytest.mark.slow
def test_risk_aversion_pays_beyond_the_interval_of_its_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""In full, and as its page says: mean minus weighted variance, paired, on later years."""
    pages = []
    page_of = demo.page_of
    monkeypatch.setattr(demo, "page_of", lambda *args: pages.append(args) or page_of(*args))
    demo.main(out=tmp_path)
    ((_, scores, rounds),) = pages
    assert rounds == demo.NUM_ROUNDS and len(scores[NEUTRAL]) == demo.NUM_SEEDS
    for label, risk_aversion in zip(demo.LABELS[1:], demo.RISK_AVERSIONS, strict=True):
        own, other = (
            demo.mean_variance(each / 100, risk_aversion)
            for each in (scores[label], scores[NEUTRAL])
        )
        gain = paired_difference(own, other)
        assert gain.mean > gain.half_width
