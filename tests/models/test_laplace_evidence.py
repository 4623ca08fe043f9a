r"""The evidence of all readings against one dense Gaussian over the readings, by autograd.

The oracle knows nothing of sufficient statistics: it holds a covariance of every reading, finds the
mode by damped Newton steps with automatic derivatives, and traces the Fisher information.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from botorch_risk.engine import MarginalLikelihoodObjective, fit_exact_gp
from botorch_risk.models import MeanVarianceGP, mean_and_noise
from botorch_risk.models.evidence_objective import TwoProcesses, log_density_of_shifts
from botorch_risk.models.laplace_evidence import Readings, evidence_at, find_mode

D = torch.double
LEVEL, FLOOR = -1.5, 1e-8


def matern(X: Tensor, lengthscale: Tensor, outputscale: Tensor) -> Tensor:
    r = (5 * ((X[:, None] - X[None]) / lengthscale).square().sum(-1) + 1e-18).sqrt()
    return outputscale * (1 + r + r.square() / 3) * (-r).exp()


def covariances(X: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    r"""Of the mean and of the log noise variance, from logarithms of 2 d + 2 hyperparameters."""
    mean, noise = theta.exp().chunk(2)
    return matern(X, mean[:-1], mean[-1]) + 4, matern(X, noise[:-1], noise[-1]) + 2


def example(k: int, missing: bool = True, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(9, 2, dtype=D, generator=generator)
    noise = (0.1 + X[:, :1]) * torch.randn(9, k, dtype=D, generator=generator)
    Y = (4 * X[:, :1]).sin() + noise
    if missing and k > 1:
        Y[::3, 1:] = torch.nan
    theta = torch.tensor([-0.6, -0.3, 0.2, 0.1, -0.1, 0.3], dtype=D)
    return X, Y, theta


def log_density(h: Tensor, covariance: Tensor, Y: Tensor) -> Tensor:
    r"""Of every reading, for log noise variances `n` and a covariance of the mean `n x n`."""
    row, column = Y.isfinite().nonzero(as_tuple=True)
    same_row = (row[:, None] == row).to(D)
    joint = covariance[row][:, row] + torch.diag(h.exp()[row]) + FLOOR * same_row
    return MultivariateNormal(torch.zeros(len(row), dtype=D), joint).log_prob(Y[row, column])


def fisher(h: Tensor, covariance: Tensor, Y: Tensor) -> Tensor:
    r"""The diagonal of the Fisher information in `h`, by its trace formula."""
    row, _ = Y.isfinite().nonzero(as_tuple=True)
    same_row = (row[:, None] == row).to(D)
    joint = covariance[row][:, row] + torch.diag(h.exp()[row]) + FLOOR * same_row
    inverse = torch.linalg.inv(joint)
    changes = [inverse @ torch.diag(h.exp()[row] * (row == i)) for i in range(len(h))]
    return torch.stack([0.5 * (change @ change).trace() for change in changes])


def mode(covariance: Tensor, prior: Tensor, Y: Tensor) -> Tensor:
    precision = torch.linalg.inv(prior)

    def log_joint(h: Tensor) -> Tensor:
        return log_density(h, covariance, Y) - 0.5 * (h - LEVEL) @ precision @ (h - LEVEL)

    h = torch.full((len(Y),), LEVEL, dtype=D)
    for _ in range(200):
        slope = torch.autograd.functional.jacobian(log_joint, h)
        step = torch.linalg.solve(precision + torch.diag(fisher(h, covariance, Y)), slope)
        while log_joint(h + step) < log_joint(h) - 1e-12:
            step = step / 2
        h = h + step
        if step.abs().max() < 1e-11:
            return h
    raise AssertionError("no mode")


def evidence(X: Tensor, Y: Tensor, theta: Tensor) -> Tensor:
    covariance, prior = covariances(X, theta)
    h = mode(covariance, prior, Y)
    offset = h - LEVEL
    inner = torch.eye(len(h), dtype=D) + torch.diag(fisher(h, covariance, Y)) @ prior
    fit = log_density(h, covariance, Y) - 0.5 * offset @ torch.linalg.solve(prior, offset)
    return fit - 0.5 * torch.logdet(inner)


def readings(Y: Tensor) -> Readings:
    counts = Y.isfinite().sum(-1).to(D)
    means = Y.nanmean(-1).nan_to_num(0.0)
    squares = (Y - means.unsqueeze(-1)).square().nansum(-1)
    observed = counts > 0
    return Readings(
        means=means,
        counts=counts,
        squares=squares,
        level=torch.full(Y.shape[:-2], LEVEL, dtype=D),
        floor=torch.full(Y.shape[:-2], FLOOR, dtype=D),
        observed=None if observed.all() else observed,
    )


def found(
    X: Tensor, Y: Tensor, theta: Tensor, start: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""The package's evidence and its gradient, `rows` and `rows x p`."""
    theta = theta.detach().requires_grad_()
    pairs = [covariances(*row) for row in zip(X, theta, strict=True)]
    covariance, prior = (torch.stack(part) for part in zip(*pairs, strict=True))
    data = readings(Y)
    with torch.no_grad():
        begin = torch.zeros_like(data.means) if start is None else start
        masked = data.masked(covariance)
        before = masked.clone()
        at = find_mode(masked, prior, data, begin)
        assert at.found.all() and torch.equal(masked, before)
        result = evidence_at(at, prior, data)
    pulled = (data.masked(result.of_mean) * covariance).sum() + (result.of_noise * prior).sum()
    (gradient,) = torch.autograd.grad(pulled, theta)
    return result.value, gradient


@pytest.mark.parametrize("k", [1, 2, 5])
def test_value_is_that_of_every_reading(k: int) -> None:
    X, Y, theta = example(k)
    value, _ = found(X[None], Y[None], theta[None])
    torch.testing.assert_close(value[0], evidence(X, Y, theta), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "k", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)]
)
def test_gradient_is_that_of_the_value_and_of_the_oracle(k: int) -> None:
    X, Y, theta = example(k)
    _, gradient = found(X[None], Y[None], theta[None])

    def values(theta: Tensor) -> Tensor:
        ours, _ = found(X[None], Y[None], theta[None])
        return torch.stack([ours[0], evidence(X, Y, theta)])

    for i, step in enumerate(1e-4 * torch.eye(len(theta), dtype=D)):
        slopes = (values(theta + step) - values(theta - step)) / 2e-4
        torch.testing.assert_close(gradient[:, i].expand(2), slopes, rtol=1e-5, atol=1e-6)


def test_the_start_of_the_search_does_not_matter() -> None:
    X, Y, theta = example(3)
    value, gradient = found(X[None], Y[None], theta[None])
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        start = 0.5 * torch.randn(1, 9, dtype=D, generator=generator)
        again, slope = found(X[None], Y[None], theta[None], start)
        torch.testing.assert_close(again, value, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(slope, gradient, rtol=1e-4, atol=1e-6)


def test_rows_do_not_touch_and_missing_inputs_do_not_count() -> None:
    X, Y, theta = (
        torch.stack(part) for part in zip(*(example(3, seed=i) for i in range(2)), strict=True)
    )
    theta[1] += 0.4
    Y[1, 6:] = torch.nan
    values, gradients = found(X, Y, theta)
    for i, n in enumerate((9, 6)):
        value, gradient = found(X[i : i + 1, :n], Y[i : i + 1, :n], theta[i : i + 1])
        torch.testing.assert_close(values[i : i + 1], value, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(gradients[i : i + 1], gradient, rtol=1e-6, atol=1e-8)


def test_a_row_without_a_factor_leaves_the_others_alone() -> None:
    X, Y, theta = example(3)
    covariance, prior = covariances(X, theta)
    data = readings(torch.stack([Y, Y]))
    broken = torch.stack([covariance, -covariance])
    prior = torch.stack([prior, prior])
    result = evidence_at(find_mode(broken, prior, data, torch.zeros(2, 9, dtype=D)), prior, data)
    torch.testing.assert_close(result.value[0], found(X[None], Y[None], theta[None])[0][0])
    assert result.value[1].isnan()


def test_shifts_of_lengthscales() -> None:
    r"""One shift that all inputs share, and each input's own about it."""
    shifts = np.array([[0.9, 0.4, 1.2], [0.7, 0.7, 0.7]])
    value, gradient = log_density_of_shifts(shifts)
    own = (shifts[0] - shifts[0].mean()) / 0.35
    expected = -0.5 * (shifts[0].mean() - 0.7) ** 2 - 0.5 * (own**2).sum()
    np.testing.assert_allclose(value, [expected, 0.0], atol=1e-15)
    for i in range(3):
        step = 1e-6 * np.eye(3)[i]
        slope = (
            log_density_of_shifts(shifts + step)[0] - log_density_of_shifts(shifts - step)[0]
        ) / 2e-6
        np.testing.assert_allclose(gradient[:, i], slope, atol=1e-8)


def heteroscedastic(*batch_shape: int, n: int = 20, k: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + k)
    X = torch.rand(*batch_shape, n, 1, dtype=D, generator=generator)
    noise = (0.1 + X) * torch.randn(*batch_shape, n, k, dtype=D, generator=generator)
    return X, (5 * X).sin() + noise


def log_posterior(model: MeanVarianceGP, X: Tensor, Y: Tensor, theta: Tensor) -> Tensor:
    r"""The oracle's objective of a model of one input, per point, at logarithms of its parameters.

    In units of the standardised means, with BoTorch's priors of the lengthscales and of the
    output scale, and that of the noise.
    """
    means = Y.nanmean(-1)
    Y = (Y - means.mean()) / means.std()
    log_mean, log_scale, log_noise, log_spread = theta
    # The variance of the constant is four times that of the means, of which one is estimated.
    covariance = matern(X, log_mean.exp(), log_scale.exp()) + 4 * (1 - 1 / len(X))
    level = model.noise_model.outcome_transform.means.squeeze() - 2 * means.std().log()
    prior = matern(X, log_noise.exp(), log_spread.exp()) + 4
    offset_level = level - LEVEL
    shifted = Y * (-offset_level / 2).exp()  # the oracle's level is another one
    covariance = covariance * (-offset_level).exp()
    h = mode(covariance, prior, shifted)
    inner = torch.eye(len(h), dtype=D) + torch.diag(fisher(h, covariance, shifted)) @ prior
    offset = h - LEVEL
    value = log_density(h, covariance, shifted) - 0.5 * offset @ torch.linalg.solve(prior, offset)
    value = value - 0.5 * torch.logdet(inner) - 0.5 * offset_level * Y.isfinite().sum()
    location = math.sqrt(2)
    for log in (log_mean, log_noise):
        value = value + torch.distributions.LogNormal(location, math.sqrt(3)).log_prob(log.exp())
    value = value + torch.distributions.Gamma(2.0, 0.15).log_prob(log_scale.exp())
    value = value + torch.distributions.LogNormal(1.0, 1.0).log_prob(log_spread.exp())
    return (value - 0.5 * (log_noise - log_mean - 0.7).square()) / len(X)


def parameters(model: MeanVarianceGP) -> Tensor:
    values = [
        value
        for process in (model.mean_model, model.noise_model)
        for value in (
            process.covar_module.base_kernel.lengthscale,
            process.covar_module.outputscale,
        )
    ]
    return torch.stack([value.detach().flatten()[0].log() for value in values])


@pytest.mark.slow
def test_the_fit_maximises_the_evidence_and_the_priors() -> None:
    X, Y = heteroscedastic()
    model = MeanVarianceGP(X, Y)
    result = fit_exact_gp(model)
    assert result.status == ("converged",) and result.method == "closed form"
    theta = parameters(model)
    best = log_posterior(model, X, Y, theta)
    torch.testing.assert_close(result.objective, best, rtol=1e-5, atol=1e-6)
    step = 1e-3 * torch.eye(4, dtype=D)
    slopes = torch.stack(
        [
            (log_posterior(model, X, Y, theta + e) - log_posterior(model, X, Y, theta - e)) / 2e-3
            for e in step
        ]
    )
    assert slopes.abs().max() < 1e-4


@pytest.mark.slow
def test_each_replicate_converges_on_its_own() -> None:
    X, Y = heteroscedastic(3)
    together = MeanVarianceGP(X, Y)
    result = fit_exact_gp(together)
    for i in range(3):
        alone = MeanVarianceGP(X[i], Y[i])
        one = fit_exact_gp(alone)
        assert (one.status[0], one.num_evaluations.item()) == (
            result.status[i],
            result.num_evaluations[i].item(),
        )
        torch.testing.assert_close(one.objective, result.objective[i], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.slow
def test_a_warm_start_takes_fewer_evaluations_to_the_same_optimum(k: int) -> None:
    X, Y = heteroscedastic(2, n=30, k=k)
    first = fit_exact_gp(MeanVarianceGP(X, Y))
    model, warm = MeanVarianceGP(X, Y), MeanVarianceGP(X, Y)
    cold, again = fit_exact_gp(model), fit_exact_gp(warm, previous=first.optimum)
    assert (again.num_evaluations < cold.num_evaluations).all()
    assert (again.num_evaluations <= 4).all()
    torch.testing.assert_close(again.objective, cold.objective, rtol=0, atol=1e-5)
    at = torch.rand(2, 5, 1, dtype=D)
    torch.testing.assert_close(
        warm.predicted_noise(at), model.predicted_noise(at), rtol=1e-2, atol=1e-4
    )


def test_a_single_reading_among_many_repeats_takes_no_further_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = heteroscedastic(n=30, k=3)
    number = {}
    for singles in (1, 10):
        table = Y.clone()
        table[..., :singles, 1:] = torch.nan
        for name, threshold in (("default", 0.1), ("never", 1.0)):
            monkeypatch.setattr(mean_and_noise, "MANY_SINGLES", threshold)
            number[singles, name] = fit_exact_gp(MeanVarianceGP(X, table)).num_evaluations.item()
    assert number[1, "default"] == number[1, "never"]
    assert number[10, "default"] > number[10, "never"]


def test_a_warm_start_that_leads_astray_ends_where_a_cold_one_does() -> None:
    X, Y = heteroscedastic(2, n=30, k=3)
    cold = fit_exact_gp(MeanVarianceGP(X, Y))
    optimum = cold.optimum
    assert optimum is not None
    # Far below what the points resolve: a flat stretch, where the warm start ends.
    theta = optimum.theta - torch.tensor([9.0, 0.0, 0.0, 0.0, 0.0], dtype=D)
    again = fit_exact_gp(MeanVarianceGP(X, Y), previous=replace(optimum, theta=theta))
    assert (again.num_evaluations > cold.num_evaluations).all()
    torch.testing.assert_close(again.objective, cold.objective, rtol=0, atol=1e-5)


def test_noise_of_the_spread_is_fitted_by_itself() -> None:
    X, Y = heteroscedastic()
    model, by_itself = (MeanVarianceGP(X, Y, noise_evidence="spread") for _ in range(2))
    result = fit_exact_gp(model)
    assert result.method == "fit_gpytorch_mll"
    by_itself.fit_processes()
    torch.testing.assert_close(
        model.predicted_noise(X), by_itself.predicted_noise(X), rtol=1e-3, atol=0
    )


def test_the_first_output_scale_of_a_mean_with_its_noise_follows_raw_outcomes() -> None:
    X = torch.rand(15, 2, dtype=D)
    Y = (5 * X).sin().sum(-1, keepdim=True)
    repeats = Y + 0.1 * torch.randn(*Y.shape[:-1], 3, dtype=torch.double)
    starts = []
    for unit in (1e-3, 1e3):
        model = MeanVarianceGP(X, unit * repeats, outcome_transform=None)
        sides = (
            MarginalLikelihoodObjective.of(part.train())
            for part in (model.mean_model, model.noise_model)
        )
        starts.append(TwoProcesses(*sides).own()[0])
    changed = np.abs(starts[1] - starts[0]) > 1e-6
    assert (starts[1] - starts[0])[changed].tolist() == pytest.approx([2 * math.log(1e6)])
