from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch_risk_bench.experiments.plots import save_png

from botorch_risk.diagnostics import leave_one_out, plot_leave_one_out, verdict
from botorch_risk.models import MeanVarianceGP


def model_of_repeats(spread: float = 1.0) -> MeanVarianceGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 2, dtype=torch.double, generator=generator)
    normal = torch.randn(20, 4, dtype=torch.double, generator=generator)
    return MeanVarianceGP(
        X, X.sin().sum(dim=-1, keepdim=True) + (0.1 + spread * X[:, :1] ** 2) * normal
    )


def test_four_panels_and_the_verdict(tmp_path: Path) -> None:
    check = leave_one_out(model_of_repeats())
    figure = plot_leave_one_out(check)
    outcomes, residuals, noise, coverage = figure.axes
    assert figure.get_suptitle().replace("\n", " ") == verdict(check).sentence
    points = outcomes.lines[0]
    np.testing.assert_allclose(points.get_xdata(), check.mean)
    np.testing.assert_allclose(points.get_ydata(), check.observed)
    np.testing.assert_allclose(residuals.lines[0].get_ydata(), check.residuals)
    np.testing.assert_allclose(residuals.lines[0].get_xdata(), check.noise.sqrt())
    np.testing.assert_allclose(noise.lines[0].get_ydata(), check.sample_variances.sqrt())
    assert noise.get_yscale() == "log"
    shares = coverage.lines[0].get_ydata()
    inside = check.residuals.abs() <= 1.959964 * (0.5 / 0.5)
    levels = coverage.lines[0].get_xdata()
    assert shares[-1] >= inside.double().mean().item()  # the last level is 98 %
    assert levels[-1] == pytest.approx(0.98)
    assert (np.diff(shares) >= 0).all()
    path = save_png(figure, tmp_path / "check.png")
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize(("spread", "scale"), [(1.0, "log"), (0.0, "linear")])
def test_the_noise_axis_is_logarithmic_where_it_varies_much(spread: float, scale: str) -> None:
    model = model_of_repeats(spread)
    if not spread:
        model = MeanVarianceGP(
            model.train_X, model.train_means, torch.full_like(model.train_means, 0.01)
        )
    assert plot_leave_one_out(leave_one_out(model)).axes[1].get_xscale() == scale


def test_single_readings_have_no_spread_of_repeats() -> None:
    X = torch.linspace(0, 1, 15, dtype=torch.double).unsqueeze(-1)
    figure = plot_leave_one_out(leave_one_out(SingleTaskGP(X, (6 * X).sin())))
    noise, coverage = figure.axes[2:]
    assert [text.get_text() for text in noise.texts] == ["no rows with repeats"]
    assert not noise.axison
    assert [line.get_label() for line in coverage.lines][:1] == ["outcomes"]
