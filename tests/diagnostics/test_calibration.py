r"""Calibration and coverage of predictions."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import RBFKernel
from scipy.stats import binom, norm
from torch import Tensor

from botorch_risk.diagnostics import calibration, coverage
from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from tests.diagnostics.test_verdict import check_of
from tests.waves import BOUNDS, model_of, waves


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_calibration_counts_what_lies_within(batch_shape: tuple[int, ...]) -> None:
    model, seeds = model_of(*batch_shape), list(range(max(1, *batch_shape, 1)))
    fit_exact_gp(model)
    points: list[Tensor] = []

    def watched(X: Tensor) -> Tensor:
        points.append(X)
        return waves(X)

    found = calibration(model, watched, BOUNDS, seeds=seeds, num_points=200, levels=(0.5, 0.9))
    X = points[0].reshape(-1, 200, 2)
    assert ((X >= 0) & (X <= 1)).all()
    for r, rows in enumerate(X):
        posterior = model.posterior(rows)
        at = (r,) if batch_shape else ()
        mean, variance = posterior.mean[at].flatten(), posterior.variance[at].flatten()
        z = (waves(rows) - mean) / variance.sqrt()
        for level, share in zip((0.5, 0.9), found.coverage[at], strict=True):
            inside = [abs(value) <= norm.ppf((1 + level) / 2) for value in z.tolist()]
            assert share.item() == pytest.approx(sum(inside) / 200, abs=0.01)
        assert found.root_mean_square[at].item() == pytest.approx(
            z.square().mean().sqrt().item(), rel=1e-3
        )
        error = (waves(rows) - mean).square().mean().sqrt()
        assert found.error[at].item() == pytest.approx(error.item(), rel=1e-6)


@pytest.mark.parametrize("factor", [1.0, 4.0])
@pytest.mark.slow
def test_calibration_of_a_model_that_is_right_and_of_one_that_is_not(factor: float) -> None:
    r"""A draw of the model itself is covered as often as claimed; not if it is far rougher."""
    replicates, generator = 40, torch.Generator().manual_seed(1)
    centers = torch.rand(replicates, 300, 2, dtype=torch.double, generator=generator)
    normal = torch.randn(replicates, 300, 1, dtype=torch.double, generator=generator)

    def kernel(left: Tensor, right: Tensor) -> Tensor:
        return torch.exp(-0.5 * torch.cdist(left, right).square() / 0.3**2)

    K = kernel(centers, centers) + 1e-6 * torch.eye(300).double()
    weights = torch.linalg.solve_triangular(torch.linalg.cholesky(K).mT, normal, upper=True)

    def function(
        X: Tensor,
    ) -> Tensor:  # the mean given 300 exact values, at all of which it is a draw
        return (kernel(X, centers) @ weights).squeeze(-1)

    X = torch.rand(replicates, 12, 2, dtype=torch.double, generator=generator)
    Y = function(X).unsqueeze(-1)
    with validate_input_scaling(False):
        model = SingleTaskGP(
            X,
            Y,
            torch.full_like(Y, 1e-6),
            covar_module=RBFKernel(batch_shape=torch.Size([replicates])).double(),
            outcome_transform=None,
        )
    model.covar_module.lengthscale = 0.3 * factor
    found = calibration(model, function, BOUNDS, seeds=range(replicates), num_points=200)
    coverage, error = found.coverage.mean(dim=0), found.coverage.std(dim=0) / replicates**0.5
    if factor == 1.0:
        assert ((coverage - found.levels).abs() <= 3 * error).all()
        assert found.root_mean_square.square().mean().item() == pytest.approx(1.0, abs=0.15)
    else:
        assert (coverage < found.levels - 5 * error).all()
        assert (found.root_mean_square > 1.5).all()


def spread(X: Tensor) -> Tensor:
    return 0.05 + X[..., 0]


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_coverage_of_noise_and_of_readings(batch_shape: tuple[int, ...]) -> None:
    r"""The noise point by point; readings by drawing them."""
    generator = torch.Generator().manual_seed(5)
    X = torch.rand(*batch_shape, 15, 2, dtype=torch.double, generator=generator)
    normal = torch.randn(*batch_shape, 15, 6, dtype=torch.double, generator=generator)
    model = MeanVarianceGP(X, waves(X).unsqueeze(-1) + spread(X).unsqueeze(-1) * normal)
    seeds = list(range(max(1, *batch_shape, 1)))
    points: list[Tensor] = []

    def variance(X: Tensor) -> Tensor:
        points.append(X)
        return spread(X).square()

    found = calibration(
        model,
        waves,
        BOUNDS,
        seeds=seeds,
        num_points=300,
        levels=(0.5, 0.9),
        noise_variance=variance,
    )
    assert found.noise_coverage is not None
    assert found.reading_coverage is not None
    rows = points[0]
    posterior = model.posterior(rows, observation_noise=True)
    drawn = torch.randn(2000, *rows.shape[:-1], dtype=torch.double, generator=generator)
    readings = waves(rows) + spread(rows) * drawn
    z = (readings - posterior.mean.squeeze(-1)) / posterior.variance.squeeze(-1).sqrt()
    log_noise = model.noise_model.posterior(rows)
    offset = (spread(rows).square().log() - log_noise.mean.squeeze(-1)).abs()
    for j, level in enumerate((0.5, 0.9)):
        width = norm.ppf((1 + level) / 2)
        inside = (z.abs() <= width).double().mean(dim=0).mean(dim=-1)
        torch.testing.assert_close(found.reading_coverage[..., j], inside, atol=2e-3, rtol=0)
        held = (offset <= width * log_noise.variance.squeeze(-1).sqrt()).double().mean(dim=-1)
        torch.testing.assert_close(found.noise_coverage[..., j], held)


def test_readings_of_a_model_with_one_noise_level() -> None:
    model = model_of()
    fit_exact_gp(model)
    found = calibration(
        model, waves, BOUNDS, seeds=0, noise_variance=lambda X: 0.01 + 0 * X[..., 0], levels=(0.9,)
    )
    assert found.noise_coverage is None
    assert found.reading_coverage is not None
    posterior = model.posterior(torch.rand(50, 2, dtype=torch.double), observation_noise=True)
    assert (posterior.variance > 0).all()
    assert 0.0 < found.reading_coverage.item() < 1.0


def test_shares_of_rows_by_hand() -> None:
    nan = torch.nan
    residuals = torch.tensor([0.1, -0.5, 1.0, -3.0, nan])  # 50 % is 0.674, 80 % is 1.282
    variances = torch.tensor([nan, 1.0, 2.0, nan, nan])
    found = coverage(check_of(residuals, variances), levels=[0.5, 0.8])
    np.testing.assert_array_equal(found.levels, [0.5, 0.8])
    np.testing.assert_array_equal(found.outcomes, [0.5, 0.75])
    assert found.sample_variances is not None
    np.testing.assert_array_equal(found.sample_variances, [0.0, 0.5])
    np.testing.assert_array_equal(found.lower, [binom.ppf(0.025, 4, p) / 4 for p in (0.5, 0.8)])
    np.testing.assert_array_equal(found.upper, [binom.ppf(0.975, 4, p) / 4 for p in (0.5, 0.8)])


def test_without_sample_variances() -> None:
    found = coverage(check_of(torch.tensor([0.1, -0.5])))
    assert found.sample_variances is None
    assert (found.levels[0], found.levels[-1], len(found.levels)) == (0.02, 0.98, 49)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_levels_are_probabilities(level: float) -> None:
    with pytest.raises(ValueError, match=rf"`levels` within \(0, 1\). Got {level}"):
        coverage(check_of(torch.tensor([0.1])), levels=[level])


def test_values_may_have_a_column_and_no_other_shape() -> None:
    model = model_of(2)
    options = {"seeds": [0, 1], "num_points": 20}

    def column(X: Tensor) -> Tensor:
        return waves(X).unsqueeze(-1)

    def noise(X: Tensor) -> Tensor:
        return 0.01 + 0.01 * X[..., :1]

    found = calibration(model, column, BOUNDS, noise_variance=noise, **options)
    expected = calibration(
        model, waves, BOUNDS, noise_variance=lambda X: noise(X).squeeze(-1), **options
    )
    for one, other in zip(found, expected, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other)
    for name, values in (("function", {}), ("noise_variance", {"noise_variance": lambda X: X})):
        function = waves if values else lambda X: X
        with pytest.raises(BotorchTensorDimensionError, match=f"Expected `{name}` to map points"):
            calibration(model, function, BOUNDS, **values, **options)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"seeds": 0}, "seeds"),
        ({"seeds": [0, 1, 2]}, "seeds"),
        ({"bounds": BOUNDS.flip(0)}, "bounds"),
        ({"bounds": torch.cat([BOUNDS, BOUNDS[1:]])}, "bounds"),
    ],
)
def test_seeds_and_bounds_are_checked(arguments: dict[str, Any], match: str) -> None:
    given = {"bounds": BOUNDS, "seeds": [0, 1], **arguments}
    with pytest.raises((ValueError, BotorchTensorDimensionError), match=match):
        calibration(model_of(2), waves, **given)
