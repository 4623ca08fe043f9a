from pathlib import Path

import numpy as np
import pytest
import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.reports.level_sets import LevelSetCurves
from botorch_risk_bench.reports.plots import (
    plot_classes,
    plot_final_model,
    plot_model,
    plot_regret,
    plot_scores,
    save_png,
)
from matplotlib.image import imread

from bench.tests.played import play, records_in

CURVES = {"a": torch.rand(8, 60).cumsum(-1), "b": torch.rand(8, 30), "c": torch.rand(1, 60)}


@pytest.mark.parametrize("log_scale", [False, True])
def test_regret_shows_the_mean_and_its_interval(log_scale: bool, tmp_path: Path) -> None:
    figure = plot_regret(CURVES, "regret [1]", first_round=1, log_scale=log_scale, title="sine")
    (axes,) = figure.axes
    assert axes.get_yscale() == ("log" if log_scale else "linear")
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == (
        "round",
        "regret [1]",
        "sine",
    )
    line = axes.lines[0]
    assert np.allclose(line.get_ydata(), CURVES["a"].mean(0))
    assert list(line.get_xdata()) == list(range(1, 61))
    top = axes.collections[0].get_paths()[0].vertices[:, 1].max()
    half_width = 2.364624 * CURVES["a"].std(0) / 8**0.5  # t_7^-1(0.975)
    assert top == pytest.approx((CURVES["a"].mean(0) + half_width).max())
    path = save_png(figure, tmp_path / "regret.png")
    assert path.stat().st_size < 200_000
    assert imread(path).shape[:2] == (520, 832)


def test_scores_are_drawn_at_costs_that_all_runs_have_reached(tmp_path: Path) -> None:
    steps = torch.arange(1.0, 11.0).expand(4, 10)
    curves = {
        "cheap": LevelSetCurves(steps, steps / 10),
        "expensive": LevelSetCurves(3 * steps, steps / 20 + torch.arange(4.0)[:, None] / 10),
    }
    figure = plot_scores(curves, title="coast")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cost of all samples", "F1 score")
    assert axes.get_title() == "coast"
    assert axes.get_ylim()[1] <= 1.02
    for line, (label, curve) in zip(axes.lines, curves.items(), strict=True):
        assert line.get_label() == label
        x, y = line.get_xdata(), line.get_ydata()
        assert (x[0], x[-1]) == (3.0, 10.0)
        for cost, score in list(zip(x, y, strict=True))[::23]:
            reached = (curve.cost[0] <= cost).sum() - 1  # the last that was paid by then
            assert score == pytest.approx(curve.f1[:, reached].mean())
    assert save_png(figure, tmp_path / "f1.png").stat().st_size < 200_000


def test_a_log_axis_stays_where_the_means_are() -> None:
    values = torch.tensor([[1.0, 1e-3], [1.0, 0.0], [1.0, 0.0]])  # the band reaches below 0
    (axes,) = plot_regret({"a": values}, "regret [1]", log_scale=True).axes
    assert axes.get_ylim()[0] == pytest.approx(1e-3 / 6)


def test_the_model_is_shown_with_its_noise_and_all_repeats(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 40)
    X, Y = np.array([0.2, 0.7]), np.array([[0.0, 1.0, 2.0], [1.0, 1.0, np.nan]])
    figure = plot_model(x, x, x - 0.1, x + 0.1, x**2, X, Y, xlabel="x [m]", ylabel="y [s]")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "y [s]")
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["mean ± 2 noise sd", "confidence band", "model mean", "repeats", "their mean"]
    assert axes.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(3.0)
    assert list(axes.lines[-1].get_ydata()) == [1.0, 1.0]
    assert save_png(figure, tmp_path / "model.png").stat().st_size < 200_000


def test_classes_and_the_path_of_measurements(tmp_path: Path) -> None:
    domain = np.stack([np.arange(6.0), np.arange(6.0) ** 2], axis=-1)
    high, low = np.arange(6) >= 4, np.arange(6) < 1
    path = np.array([domain[3], [np.nan, np.nan], domain[1]])
    figure = plot_classes(domain, high, low, path, xlabel="km east", title="coast")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_title()) == ("km east", "coast")
    drawn = {dots.get_label(): np.asarray(dots.get_offsets()) for dots in axes.collections}
    assert list(drawn) == ["high", "open", "low"]
    for name, points in (("high", domain[4:]), ("open", domain[1:4]), ("low", domain[:1])):
        np.testing.assert_array_equal(drawn[name], points)
    assert len({tuple(dots.get_facecolor()[0]) for dots in axes.collections}) == 3
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), domain[[3, 1]])
    assert save_png(figure, tmp_path / "classes.png").stat().st_size < 200_000


def test_classes_on_a_grid_are_cells() -> None:
    east, north = np.array([0.0, 1.0, 3.0]), np.array([0.0, 5.0])
    domain = np.stack(np.meshgrid(east, north, indexing="ij"), axis=-1).reshape(-1, 2)
    high, low = domain[:, 0] == 3.0, domain[:, 1] + domain[:, 0] < 1.0
    figure = plot_classes(domain, high, low, domain[:2])
    cells = figure.axes[0].collections[0]
    np.testing.assert_array_equal(cells.get_array(), [[1, 0, -1], [0, 0, -1]])  # north x east
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][:3] == ["high", "open", "low"]
    drawn = [cells.to_rgba(each) for each in (-1, 0, 1)]
    assert drawn == [tuple(dots.get_facecolor()[0]) for dots in figure.axes[0].collections[1:]]


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"`path` `m x 2`\. Got .*low.shape=\(3,\)"):
        plot_classes(np.zeros((4, 2)), np.zeros(4), np.zeros(3), np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"Got domain.shape=\(4, 3\)"):
        plot_classes(np.zeros((4, 3)), np.zeros(4), np.zeros(4), np.zeros((1, 3)))
    x = np.linspace(0, 1, 4)
    with pytest.raises(ValueError, match=r"`Y` `m x k`\. Got .*Y.shape=\(3, 2\)"):
        plot_model(x, x, x, x, x, X=x[:2], Y=np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"shape `n`"):
        plot_model(x, x[:2], x, x, x, X=x[:2], Y=np.zeros((2, 2)))


def test_the_models_of_a_one_dimensional_experiment_are_drawn(tmp_path: Path) -> None:
    definition = get_experiment("sine")
    path = tmp_path / "sine.sqlite"
    play(definition, path, 2, ["RAHBO"], 1)
    with records_in(path) as store:
        figure = plot_final_model(store, definition, "RAHBO", replicate=1)
        assert figure is not None
        (axes,) = figure.axes
        assert axes.get_title() == "sine, RAHBO, seed 1, round 1"
        repeats, means = axes.lines[1:3]
        assert len(repeats.get_xdata()) == 11 * definition.num_repeats
        assert len(means.get_xdata()) == 11
        assert plot_final_model(store, get_experiment("branin"), "RAHBO") is None
        assert plot_final_model(store, definition, "GP-UCB") is None
