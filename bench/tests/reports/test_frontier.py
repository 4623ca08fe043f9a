r"""The efficient edge against a loop, the sentence against its numbers, and the picture."""

from pathlib import Path

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch_risk_bench.metrics import paired_difference
from botorch_risk_bench.reports.frontier import (
    bought_and_paid,
    efficient,
    mean_variance,
    plot_frontier,
    recommended,
)
from torch import Tensor

from bench.tests.experiments.noisy_quadratic import QUADRATIC
from bench.tests.played import play, records_in

SCORES = torch.rand(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def is_beaten(scores: Tensor, row: Tensor) -> bool:
    return any(
        other[0] >= row[0] and other[1] <= row[1] and not torch.equal(other, row)
        for other in scores
    )


@pytest.mark.parametrize("digits", [6, 1])  # with many ties
def test_the_edge_holds_what_nothing_beats(digits: int) -> None:
    scores = SCORES.round(decimals=digits)
    edge = efficient(scores)
    expected = {tuple(row.tolist()) for row in scores if not is_beaten(scores, row)}
    assert {tuple(row.tolist()) for row in edge} == expected
    assert len(edge) == len(expected) > 1
    assert (edge.diff(dim=0) > 0).all()


def test_mean_variance_weighs_the_square_of_the_deviation() -> None:
    expected = [m - 3.0 * s * s for m, s in SCORES.tolist()]
    torch.testing.assert_close(mean_variance(SCORES, 3.0), torch.tensor(expected).double())


def test_the_sentence_has_paired_differences_and_both_levels() -> None:
    neutral = torch.tensor([[50.0, 170.0], [60.0, 180.0], [58.0, 166.0]])
    averse = torch.tensor([[20.0, 25.0], [26.0, 35.0], [29.0, 30.0]])
    said = bought_and_paid(averse, neutral, " points", digits=1)
    risk = paired_difference(neutral[:, 1], averse[:, 1])
    price = paired_difference(neutral[:, 0], averse[:, 0])
    assert said == (
        f"bought a standard deviation lower by 142.0 ± {risk.half_width:.1f} points "
        f"(from 172.0 to 30.0) and cost 31.0 ± {price.half_width:.1f} points of the mean "
        "(from 56.0 to 25.0)"
    )


def test_the_picture_shows_the_edge_and_how_often_a_decision_is_recommended() -> None:
    averse = SCORES[[3, 3, 3, 5]]
    figure = plot_frontier(SCORES, {"neutral": SCORES[:1], "averse": averse}, ylabel="gain")
    (axes,) = figure.axes
    dots, _, first, second = axes.collections
    assert len(dots.get_offsets()) == len(SCORES)
    assert sorted(second.get_sizes() / first.get_sizes()) == [1, 3]
    (line,) = axes.lines
    edge = efficient(SCORES)
    assert torch.equal(torch.as_tensor(line.get_xdata()), edge[:, 1])
    assert torch.equal(torch.as_tensor(line.get_ydata()), edge[:, 0])
    assert {text.get_text() for text in axes.texts} == {"neutral", "averse"}
    assert axes.get_xlabel() == "standard deviation" and axes.get_ylabel() == "gain"
    with pytest.raises(BotorchTensorDimensionError, match=r"`n x 2`, mean and deviation\. Got \(4"):
        plot_frontier(SCORES, {"averse": averse[:, :1]})


def test_labels_of_groups_that_coincide_stand_clear_of_points_and_of_each_other() -> None:
    groups = {name: SCORES[i : i + 4] / 100 + 0.5 for i, name in enumerate("abcd")}
    figure = plot_frontier(SCORES, groups)
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    places = [text.get_position() for text in axes.texts]
    heights = torch.tensor([y for _, y in places])
    assert (heights.diff() <= -0.07 * (high - low) + 1e-9).all()
    assert min(x for x, _ in places) > max(group[:, 1].max() for group in groups.values())


def test_recommendations_are_of_the_last_round_that_all_have(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    play(QUADRATIC, path, 2, ["neutral"], 4)
    play(QUADRATIC, path, 2, ["averse"], 2)
    with records_in(path) as records:
        found = recommended(records, ["neutral", "averse"])
        for label, points in found.items():
            assert torch.equal(points, records.rounds(label)[2].recommendation)
        with pytest.raises(ValueError, match=r"a completed round of \['neutral', 'late'\]"):
            recommended(records, ["neutral", "late"])
