r"""Bounds of what one evaluation exceeds; the contract is in `test_contract.py`."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from scipy.stats import norm

from botorch_risk.constraints import NoiseQuantileBound, NoiseQuantileModel
from tests.contracts import RepeatedData, correlation_of, mean_variance_gp
from tests.models.risks import gp

X = torch.rand(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("minimized", [False, True])
@pytest.mark.parametrize("delta", [0.05, 0.9])
def test_bounds_are_in_order_and_the_mean_is_that_of_the_model(
    minimized: bool, delta: float
) -> None:
    model = mean_variance_gp(RepeatedData.make())
    bound = NoiseQuantileBound(model, delta, 4.0, noise_beta=2.0, minimized=minimized)
    mean = NoiseQuantileModel(model, delta, minimized).posterior(X).mean.squeeze(-1)
    torch.testing.assert_close(bound.mean(X), mean, rtol=1e-6, atol=1e-6)
    without = NoiseQuantileBound(model, delta, 4.0, minimized=minimized)
    known = NoiseQuantileBound(model, delta, 0.0, minimized=minimized)
    torch.testing.assert_close(known.upper(X), known.lower(X))
    assert (bound.lower(X) < bound.upper(X)).all()
    assert (without.lower(X) < without.mean(X)).all()


@pytest.mark.parametrize("minimized", [False, True])
@pytest.mark.parametrize("delta", [0.05, 0.3, 0.9])
def test_the_lower_bound_expects_the_noise_that_hurts(delta: float, minimized: bool) -> None:
    r"""Much of it in the lower tail, little in the upper one; and the other way for the upper."""
    model = mean_variance_gp(RepeatedData.make())
    bound = NoiseQuantileBound(model, delta, 4.0, noise_beta=2.0, minimized=minimized)
    mean, variance = model.mean_marginals(X)
    noises = model.noise_confidence_bounds(X, torch.tensor(2.0))
    for found, side, best in ((bound.upper(X), 1, torch.amax), (bound.lower(X), -1, torch.amin)):
        f = (-mean if minimized else mean) + side * 2 * variance.sqrt()
        each = torch.stack([f + norm.ppf(delta) * noise.sqrt() for noise in noises])
        torch.testing.assert_close(found, best(each, dim=0))


@pytest.mark.parametrize("minimized", [False, True])
def test_half_of_the_evaluations_are_above_f_whatever_the_noise(minimized: bool) -> None:
    model = mean_variance_gp(RepeatedData.make())
    bound = NoiseQuantileBound(model, 0.5, 4.0, noise_beta=2.0, minimized=minimized)
    mean, variance = model.mean_marginals(X)
    sign = -1 if minimized else 1
    torch.testing.assert_close(bound.upper(X), sign * mean + 2 * variance.sqrt())
    torch.testing.assert_close(bound.lower(X), sign * mean - 2 * variance.sqrt())


@pytest.mark.parametrize("noise_beta", [None, 2.0])
def test_a_batch_equals_its_replicates_alone(noise_beta: float | None) -> None:
    data = RepeatedData.make((3,))
    together = NoiseQuantileBound(mean_variance_gp(data), 0.1, 4.0, noise_beta=noise_beta)
    points = torch.rand(3, 5, 2, dtype=torch.float64)
    for r in range(3):
        model = mean_variance_gp(RepeatedData(data.X[r], data.Y[r]))
        correlation_of(model.mean_model).lengthscale = 0.4 + r / 10  # as in the batch
        model.covar_module.outputscale = 1.0 + r / 10
        model.noise_model.covar_module.lengthscale = 0.7 + r / 10
        model.refresh_noise()
        alone = NoiseQuantileBound(model, 0.1, 4.0, noise_beta=noise_beta)
        for side in ("lower", "mean", "upper"):
            found, expected = getattr(together, side)(points), getattr(alone, side)(points[r])
            assert found.shape == (3, 5)
            torch.testing.assert_close(found[r], expected)


def test_bad_arguments_are_refused() -> None:
    model = mean_variance_gp(RepeatedData.make())
    with pytest.raises(UnsupportedError, match="Expected a MeanVarianceGP"):
        NoiseQuantileBound(gp(), 0.1)
    with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)"):
        NoiseQuantileBound(model, 0.0)
    with pytest.raises(ValueError, match="`beta` to be finite and >= 0"):
        NoiseQuantileBound(model, 0.1, beta=-1.0)
    with pytest.raises(ValueError, match="`noise_beta` to be finite and >= 0"):
        NoiseQuantileBound(model, 0.1, noise_beta=-1.0)
