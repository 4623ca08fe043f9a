r"""Verdicts on a model, and their picture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from scipy.stats import norm
from torch import Tensor

from botorch_risk.diagnostics import LeaveOneOut, leave_one_out, plot_leave_one_out, verdict
from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP


def normal_scores(n: int) -> Tensor:
    r"""Standard normal quantiles in an order that is no trend."""
    scores = torch.as_tensor(norm.ppf((torch.arange(n) + 0.5) / n)).double()
    return scores[torch.randperm(n, generator=torch.Generator().manual_seed(0))]


def check_of(
    residuals: Tensor, noise_residuals: Tensor | None = None, noise: Tensor | None = None
) -> LeaveOneOut:
    r"""A model with predictions 0 +- 1, off by the given residuals."""
    ones = torch.ones_like(residuals)
    nothing = torch.full_like(residuals, torch.nan)
    return LeaveOneOut(
        observed=residuals,
        counts=5 * ones,
        mean=0 * ones,
        standard_deviation=ones,
        noise=ones if noise is None else noise,
        sample_variances=ones,
        noise_residuals=nothing if noise_residuals is None else noise_residuals,
    )


def test_a_right_model_is_trusted() -> None:
    found = verdict(check_of(normal_scores(40), normal_scores(40).flip(0)))
    assert found.trusted
    assert found.sentence == (
        "38 of 40 outcomes lie in their 95 % bands: f can be trusted at points like these. "
        "The noise agrees with the sample variances."
    )


def test_without_repeats_nothing_is_said_of_the_noise() -> None:
    found = verdict(check_of(normal_scores(40)))
    said = "38 of 40 outcomes lie in their 95 % bands: f can be trusted at points like these."
    assert found == ("trusted", said)


@pytest.mark.parametrize(
    ("scale", "kind", "words"),
    [
        (1.6, "distrusted", "too narrow: try another kernel"),
        (0.6, "trusted", "wider than they need be"),
    ],
)
def test_bands_of_the_wrong_width(scale: float, kind: str, words: str) -> None:
    found = verdict(check_of(scale * normal_scores(40)))
    assert found.kind == kind
    assert words in found.sentence


def test_a_single_outlier_is_named() -> None:
    residuals = normal_scores(40)
    residuals[7] = -8.25
    found = verdict(check_of(residuals))
    assert not found.trusted
    assert "37 of 40" in found.sentence
    assert "one misses by 8.2 standard deviations" in found.sentence


@pytest.mark.parametrize(
    ("scale", "trusted", "words"),
    [(1.6, False, "vary more than the noise model allows"), (0.6, True, "vary less than")],
)
def test_sample_variances(scale: float, trusted: bool, words: str) -> None:
    found = verdict(check_of(normal_scores(40), scale * normal_scores(40)))
    assert found.trusted == trusted
    assert words in found.sentence


@pytest.mark.parametrize(("sign", "words"), [(1.0, "too little"), (-1.0, "too much")])
def test_a_trend_of_the_residuals_with_the_noise(sign: float, words: str) -> None:
    residuals = normal_scores(40)
    noise = 2.0 + sign * residuals.abs().clamp_max(1.9)
    found = verdict(check_of(residuals, normal_scores(40), noise))
    assert not found.trusted
    assert found.sentence.endswith(f"it varies {words}.")


def test_few_rows_are_no_evidence() -> None:
    found = verdict(check_of(normal_scores(7)))
    assert found == ("not looked", "7 rows are too few to tell; take 8 or more.")
    assert verdict(check_of(normal_scores(8))).trusted
    few = normal_scores(40)
    few[7:] = torch.nan  # seven rows with repeats: no word about the noise
    assert "noise" not in verdict(check_of(normal_scores(40), few)).sentence


def model_of(n: int, k: int, seed: int = 0, quiet: float = 1.0, **options: Any) -> MeanVarianceGP:
    r"""Fitted; the noise of the second half of the rows is 0.3, of the first that times `quiet`."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.linspace(0, 1, n, dtype=torch.double).unsqueeze(-1)
    deviation = torch.where(X < 0.5, 0.3 * quiet, 0.3)
    Y = (5 * X).sin() + deviation * torch.randn(n, k, dtype=torch.double, generator=generator)
    Y[n // 2, 0] += options.pop("shift", 0.0)
    model = MeanVarianceGP(X, Y, **options)
    fit_exact_gp(model)
    return model


@pytest.mark.parametrize(
    ("n", "k", "quiet", "says"),
    [
        (9, 1, 1.0, True),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((40, 5, 1.0, False), (40, 5, 0.05, False), (9, 10, 1.0, False))
        ),
    ],
)
def test_noise_of_which_little_is_known_is_said_to_be_nearly_constant(
    n: int, k: int, quiet: float, says: bool
) -> None:
    for seed in range(3):
        model = model_of(n, k, seed, quiet)
        check = leave_one_out(model)
        log_noise = model.noise_model.posterior(model.train_X)
        mean, deviation = log_noise.mean.squeeze(-1), log_noise.variance.sqrt().squeeze(-1)
        assert check.noise_ratio is not None and check.noise_factor is not None
        torch.testing.assert_close(check.noise_ratio, (mean.max() - mean.min()).exp())
        torch.testing.assert_close(check.noise_factor, (2 * deviation.mean()).exp())
        sentence = verdict(check).sentence
        assert ("taken to be nearly constant" in sentence) == says
        assert (f"may be {check.noise_factor.item():.1f} times larger" in sentence) == says


def test_readings_that_were_left_out_are_counted() -> None:
    for shift, words in ((6.0, "1 reading was left out as wrong"), (0.0, "")):
        sentence = verdict(leave_one_out(model_of(24, 3, trim=5.0, shift=shift))).sentence
        assert words in sentence and ("left out" in sentence) == bool(words)
    many = replace(check_of(normal_scores(7)), num_dropped=3)
    assert "3 readings were left out as wrong" in verdict(many).sentence


def test_rows_without_an_outcome_do_not_count() -> None:
    residuals = torch.cat([normal_scores(40), torch.full((20,), torch.nan).double()])
    assert verdict(check_of(residuals)) == verdict(check_of(normal_scores(40)))
    assert verdict(check_of(residuals.reshape(2, 30))) == verdict(check_of(residuals))


def model_of_repeats(spread: float = 1.0) -> MeanVarianceGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 2, dtype=torch.double, generator=generator)
    normal = torch.randn(20, 4, dtype=torch.double, generator=generator)
    return MeanVarianceGP(
        X, X.sin().sum(dim=-1, keepdim=True) + (0.1 + spread * X[:, :1] ** 2) * normal
    )


@pytest.mark.slow
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
    figure.savefig(tmp_path / "check.png", dpi=130)
    assert (tmp_path / "check.png").stat().st_size < 200_000


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
