r"""Samples of the hyperparameters of the mean and of the noise."""

import math
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from gpytorch.priors import NormalPrior
from torch import Tensor

from botorch_risk.engine import sample_exact_gp
from botorch_risk.models import MeanVarianceGP, MeanVarianceSamples
from botorch_risk.models.fixed_noise import noise_kernel
from botorch_risk.models.learnt_noise import LEVEL_DEVIATION
from botorch_risk.models.scaled_gp import kernel_and_mean


def matern(Z: Tensor) -> Tensor:
    r"""A Matern-5/2 correlation of scaled inputs, `... x n x n`."""
    r = math.sqrt(5) * torch.cdist(Z, Z)
    return (1 + r + r.square() / 3) * (-r).exp()


def readings(n: int, d: int, noise: float, k: int = 1, R: int = 1) -> tuple[Tensor, Tensor]:
    r"""Inputs `R x n x d` and readings `R x n x k` of draws of a Matern process of variance 1."""
    generator = torch.Generator().manual_seed(n + d + k)
    X = torch.rand(R, n, d, generator=generator, dtype=torch.double)
    K = matern(X / (0.25 if d == 1 else 0.5))
    factor = torch.linalg.cholesky(K + 1e-8 * torch.eye(n))
    f = factor @ torch.randn(R, n, 1, generator=generator, dtype=torch.double)
    eps = torch.randn(R, n, k, generator=generator, dtype=torch.double)
    return X, f + math.sqrt(noise) * eps


def test_a_single_hyperparameter_has_the_density_of_quadrature() -> None:
    r"""The lengthscale of the mean, with the level of constant noise integrated out on a grid."""
    X, Y = readings(14, 1, 0.1, k=3)
    S = 400
    many = X[0].expand(S, 14, 1)
    modules = kernel_and_mean(many, None)
    noise = noise_kernel(many)
    noise.outputscale = 1e-6
    model = MeanVarianceGP(many, Y[0].expand(S, 14, 3), noise_covar_module=noise, **modules)
    for fixed in (
        modules["covar_module"].raw_outputscale,
        noise.raw_outputscale,
        noise.base_kernel.raw_lengthscale,
    ):
        fixed.requires_grad_(False)
    model.noise.is_tied = False
    result = sample_exact_gp(model, seeds=0)
    assert result.effective > 150

    unit = model.noise.unit_of(model.mean_model)[0].item()
    level = model.noise_model.outcome_transform.means[0].item() + math.log(unit)
    y, n = model.mean_model.train_targets[0], 14
    within = Y[0].var(dim=-1) * unit * 2  # sums of squares of three readings
    prior = NormalPrior(level, LEVEL_DEVIATION)
    grid = torch.linspace(math.log(0.026), 3.0, 200, dtype=torch.double)
    zero = torch.zeros(n, dtype=torch.double)
    values = []
    for s in grid:
        K = matern(X[0] / s.exp()) + 1.0
        each = []
        for h in torch.linspace(level - 4, level + 4, 161, dtype=torch.double):
            covariance = K + h.exp() / 3 * torch.eye(n, dtype=torch.double)
            value = torch.distributions.MultivariateNormal(zero, covariance).log_prob(y)
            value = value - (2 * h + within * (-h).exp()).sum() / 2 - (n - 1) * h
            each.append(value + prior.log_prob(h))
        values.append(torch.stack(each).logsumexp(dim=0))
    density = torch.stack(values) - 0.5 * (grid - math.log(0.5)).square()
    weights = torch.softmax(density, dim=0)
    mean = (weights * grid).sum()
    spread = (weights * (grid - mean).square()).sum().sqrt()
    found = model.covar_module.base_kernel.lengthscale.detach().flatten().log()
    assert found.mean() == pytest.approx(mean.item(), abs=0.15 * spread.item())
    assert found.std() == pytest.approx(spread.item(), rel=0.1)


def test_single_readings_leave_the_noise_open() -> None:
    r"""Where a fit takes noise for variation, and is sure, the samples have both explanations."""
    X, Y = readings(25, 2, 1.0, R=12)
    fitted = MeanVarianceGP(X, Y)
    fitted.fit_processes()
    sampled = MeanVarianceSamples(X, Y, seeds=range(12))
    with torch.no_grad():
        _, of_fit = fitted.noise_confidence_bounds(X, 4.0)
        lower, upper = sampled.noise_confidence_bounds(X, 4.0)
    assert (of_fit < 1.0).double().mean() > 0.2
    assert (upper < 1.0).double().mean() < 0.05
    assert (lower > 1.0).double().mean() < 0.05
    assert upper.median() < 6.0


def test_a_replicate_alone_is_as_in_a_batch() -> None:
    X, Y = readings(9, 1, 0.2, k=2, R=3)
    together = MeanVarianceSamples(X, Y, num_samples=8, seeds=[3, 1, 2])
    alone = MeanVarianceSamples(X[1], Y[1], num_samples=8, seeds=1)
    for name in ("confidence_bounds", "noise_confidence_bounds"):
        for one, other in zip(
            getattr(alone, name)(X[1], 4.0), getattr(together, name)(X, 4.0), strict=True
        ):
            torch.testing.assert_close(one, other[1], rtol=1e-5, atol=1e-6)
    assert alone.batch_shape == () and together.batch_shape == (3,)
    assert alone.predicted_noise(X[1]).shape == (9, 1)


def test_the_moments_are_those_of_the_mixture_of_the_samples() -> None:
    X, Y = readings(9, 1, 0.2, k=2)
    samples = MeanVarianceSamples(X[0], Y[0], num_samples=8)
    T = torch.rand(5, 1, dtype=torch.double)
    posterior = samples.model.posterior(T.expand(8, 5, 1))
    each, spread = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
    mean, variance = samples.mean_marginals(T)
    torch.testing.assert_close(mean, each.mean(dim=0))
    torch.testing.assert_close(variance, spread.mean(dim=0) + each.var(dim=0, correction=0))
    lower, upper = samples.noise_confidence_bounds(T, 4.0)
    level = samples.model.noise.marginals(T.expand(8, 5, 1))
    torch.testing.assert_close((lower * upper).sqrt(), level.mean.mean(dim=0).exp())
    assert (lower < samples.predicted_noise(T).squeeze(-1)).all()


def test_units_seeds_and_rows_mean_nothing() -> None:
    X, Y = readings(12, 1, 0.2)
    X, Y = X[0], Y[0]
    one = MeanVarianceSamples(X, Y).noise_confidence_bounds(X, 4.0)
    again = MeanVarianceSamples(X, Y).noise_confidence_bounds(X, 4.0)
    other = MeanVarianceSamples(X, Y, seeds=1).noise_confidence_bounds(X, 4.0)
    scaled = MeanVarianceSamples(X, 5.0 - 1000 * Y).noise_confidence_bounds(X, 4.0)
    order = torch.arange(12).flip(0)
    turned = MeanVarianceSamples(X[order], Y[order]).noise_confidence_bounds(X, 4.0)
    for k in (0, 1):
        assert torch.equal(one[k], again[k]) and not torch.equal(one[k], other[k])
        assert abs((one[k] / other[k]).log().mean()) < 0.8
        torch.testing.assert_close(scaled[k], 1e6 * one[k], rtol=1e-4, atol=0)
        torch.testing.assert_close(turned[k], one[k], rtol=1e-3, atol=0)


def test_a_warm_start_finds_about_the_same() -> None:
    X, Y = readings(16, 1, 0.2, k=2)
    cold = MeanVarianceSamples(X[0, :15], Y[0, :15], num_samples=32)
    warm, again = (
        MeanVarianceSamples(X[0], Y[0], num_samples=32, previous=previous)
        for previous in (cold.sampled, None)
    )
    assert warm.sampled.effective > 96
    for one, other in zip(
        warm.noise_confidence_bounds(X[0], 4.0),
        again.noise_confidence_bounds(X[0], 4.0),
        strict=True,
    ):
        torch.testing.assert_close(one.log(), other.log(), rtol=0, atol=0.4)


def test_a_state_restores_the_samples() -> None:
    X, Y = readings(9, 1, 0.2, k=2)
    model = MeanVarianceSamples(X[0], Y[0], num_samples=4).model
    other = MeanVarianceSamples(X[0], Y[0], num_samples=4, seeds=1).model
    T = torch.rand(4, 5, 1, dtype=torch.double)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(
        other.noise_confidence_bounds(T, 4.0), model.noise_confidence_bounds(T, 4.0)
    )
    torch.testing.assert_close(other.mean_marginals(T), model.mean_marginals(T))


def test_missing_readings_and_equal_rows() -> None:
    X, Y = readings(9, 1, 0.2, k=3, R=2)
    Y[0, 4, 2], Y[0, 7, 1:], Y[1, 0, 0] = math.nan, math.nan, math.nan
    both = MeanVarianceSamples(X, Y, seeds=[0, 1])
    long = torch.cat([X[0].repeat_interleave(3, dim=0), Y[0].reshape(-1, 1)], dim=-1)
    long = long[long.isfinite().all(dim=-1)]
    pooled = MeanVarianceSamples(long[:, :1], long[:, 1:])
    torch.testing.assert_close(
        pooled.noise_confidence_bounds(X[0], 4.0)[1],
        both.noise_confidence_bounds(X, 4.0)[1][0],
        rtol=1e-4,
        atol=0,
    )


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_every_device_and_in_single_precision(device: torch.device, dtype: Any) -> None:
    X, Y = readings(10, 1, 0.2, k=2)
    exact = MeanVarianceSamples(X[0], Y[0]).noise_confidence_bounds(X[0], 4.0)
    X, Y = X[0].to(device, dtype), Y[0].to(device, dtype)
    found = MeanVarianceSamples(X, Y).noise_confidence_bounds(X, 4.0)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == dtype and one.device.type == device.type
        allowed = 1e-4 if dtype == torch.float64 else 0.4
        torch.testing.assert_close(one.cpu().double().log(), other.log(), rtol=0, atol=allowed)


def test_noise_that_is_known_has_no_spread() -> None:
    X, Y = readings(12, 1, 0.1)
    X, Y = X[0], Y[0]

    def known(Z: Tensor) -> Tensor:
        return torch.full_like(Z[..., :1], 0.1)

    samples = MeanVarianceSamples(X, Y, known_noise=known)
    for each in (*samples.noise_confidence_bounds(X, 4.0), samples.predicted_noise(X).squeeze(-1)):
        torch.testing.assert_close(each, torch.full_like(each, 0.1))
    assert samples.model.covar_module.base_kernel.lengthscale.std() > 0
    given = MeanVarianceSamples(X, Y, torch.full_like(Y, 0.1))
    assert given.model.covar_module.base_kernel.lengthscale.std() > 0
    lower, upper = given.noise_confidence_bounds(X, 4.0)
    assert (lower < 0.1).all() and (upper > 0.1).all() and upper.max() < 1.0


def test_what_cannot_be_sampled_is_refused() -> None:
    X, Y = readings(9, 1, 0.2, k=2)
    with pytest.raises(UnsupportedError, match="spread of repeats alone"):
        MeanVarianceSamples(X[0], Y[0], noise_evidence="spread")
    with pytest.raises(ValueError, match="num_samples"):
        MeanVarianceSamples(X[0], Y[0], num_samples=1)
    with pytest.raises(ValueError, match="2 replicates"):
        MeanVarianceSamples(X.expand(2, 9, 1), Y.expand(2, 9, 2), seeds=[0])
