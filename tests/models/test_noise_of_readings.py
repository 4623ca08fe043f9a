r"""Noise that is learnt from all readings, single ones included."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from tests.models.examples import assert_same, everything, fit, points, repeats, with_missing


def learnt(n=10, k=4, batch_shape=()):
    X, Y = repeats(n, k, batch_shape=batch_shape)
    Y = with_missing(Y)
    model = MeanVarianceGP(X, Y)
    model.refresh_noise()
    return X, Y, model


def log_likelihood(model, Y, h):
    r"""The density of all readings, one Gaussian over the readings as they were measured.

    `h` are log noise variances; the constant of the mean has four times the variance of the means.
    """
    rows, column = Y.isfinite().nonzero(as_tuple=True)
    scale = model.outcome_transform.stdvs.squeeze() ** 2
    process = model.mean_model.train()
    covariance = scale * process.covar_module(process.train_inputs[0]).to_dense().detach()
    means = Y.nanmean(dim=-1)
    covariance = covariance + 4 * means.var(correction=0)
    joint = covariance[rows][:, rows] + torch.diag_embed(h.exp()[rows])
    return MultivariateNormal(means.mean().expand(len(rows)), joint).log_prob(Y[rows, column])


def sites_of(model):
    r"""The observations of the log noise variance and their variances, in its own units."""
    noise = model.noise_model
    return (
        noise.train_targets + noise.outcome_transform.means.squeeze(-1),
        noise.likelihood.noise_covar.noise,
    )


def mode_of(model):
    r"""The posterior mean of the log noise variance given its observations, and its prior."""
    process = model.noise_model.train()
    observations, variances = sites_of(model)
    covariance = process.covar_module(process.train_inputs[0]).to_dense().detach()
    prior = process.outcome_transform.means.squeeze() + process.mean_module.constant.detach()
    gain = torch.linalg.solve(covariance + torch.diag(variances), observations - prior)
    return prior + covariance @ gain, prior, covariance


def test_the_mode_is_stationary_for_every_reading():
    _, Y, model = learnt()
    h, prior, covariance = mode_of(model)
    h.requires_grad_()
    (slope,) = torch.autograd.grad(log_likelihood(model, Y, h), h)
    torch.testing.assert_close(covariance @ slope, h.detach() - prior, rtol=1e-5, atol=1e-5)


def test_observations_have_the_slope_and_the_expected_curvature_of_their_row():
    r"""Half the squared correlation of the readings: the trace form of the Fisher information."""
    _, Y, model = learnt()
    h, _, _ = mode_of(model)
    observations, variances = sites_of(model)
    (slope,) = torch.autograd.grad(log_likelihood(model, Y, h.requires_grad_()), h)
    h = h.detach()
    torch.testing.assert_close((observations - h) / variances, slope, rtol=1e-5, atol=1e-5)
    rows, _ = Y.isfinite().nonzero(as_tuple=True)
    scale = model.outcome_transform.stdvs.squeeze() ** 2
    process = model.mean_model.train()
    covariance = scale * process.covar_module(process.train_inputs[0]).to_dense().detach()
    covariance = covariance[rows][:, rows] + 4 * Y.nanmean(dim=-1).var(correction=0)
    precision = torch.linalg.inv(covariance + torch.diag(h.exp()[rows]))
    for i in range(10):
        change = torch.diag(h.exp()[rows] * (rows == i))
        expected = 0.5 * torch.trace(precision @ change @ precision @ change)
        torch.testing.assert_close(1 / variances[i], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_replicates_of_a_batch_do_not_touch():
    X, Y, model = learnt(batch_shape=(2,))
    result = fit_exact_gp(model)
    assert result.status == ("converged",) * 2
    test_X = torch.rand(2, 5, 2, dtype=torch.double)
    for i in range(2):
        one = MeanVarianceGP(X[i], Y[i])
        fit_exact_gp(one)
        for mine, theirs in zip(everything(one, test_X[i]), everything(model, test_X), strict=True):
            torch.testing.assert_close(mine, theirs[i], rtol=1e-6, atol=1e-8)


def test_a_replicate_without_some_rows_is_fitted_without_them():
    X, Y = repeats(12, batch_shape=(2,))
    Y[1, 8:] = torch.nan
    outcomes = RepeatedOutcomes.from_repeats(Y, allow_missing=True)
    together = MeanVarianceGP(X, outcomes)
    fit_exact_gp(together)
    alone = MeanVarianceGP(X[1, :8], Y[1, :8])
    fit_exact_gp(alone)
    test_X = torch.rand(2, 5, 2, dtype=torch.double)
    for mine, theirs in zip(
        everything(alone, test_X[1]), everything(together, test_X), strict=True
    ):
        torch.testing.assert_close(mine, theirs[1], rtol=1e-6, atol=1e-8)


def heteroscedastic(n, k):
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0, 1, n, dtype=torch.double).unsqueeze(-1)
    rho = torch.where(X > 0.5, 1.0, 0.05)
    return X, (2 * X).sin() + rho * torch.randn(n, k, generator=generator, dtype=torch.double)


def test_single_readings_show_where_the_noise_is():
    r"""Repeats in the quiet half alone; single readings scatter in the other."""
    X, Y = heteroscedastic(60, 3)
    Y[30:, 1:] = torch.nan
    at = torch.tensor([[0.9]], dtype=torch.double)
    found = {}
    for evidence in ("spread", "readings"):
        model = MeanVarianceGP(X, Y, noise_evidence=evidence)
        assert model.fit_processes()
        found[evidence] = model.noise_confidence_bounds(at, 0.0)[0].item()
    assert found["spread"] < 0.1 and 0.4 < found["readings"] < 2.0


def test_noise_is_learnt_without_any_repeats():
    X, Y = heteroscedastic(80, 1)
    model = MeanVarianceGP(X, Y)
    fit(model)
    quiet, loud = model.predicted_noise(torch.tensor([[0.1], [0.9]], dtype=torch.double)).flatten()
    assert quiet < 0.05 and 0.4 < loud < 2.5
    mean = model.posterior(X).mean
    assert (mean - (2 * X).sin())[:35].abs().max() < 0.15


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_few_single_readings_are_finite_and_of_nearly_constant_noise(n):
    X, Y = repeats(n, 1)
    model = MeanVarianceGP(X, Y)
    fit(model)
    noise = model.predicted_noise(points(20))
    assert noise.isfinite().all() and (noise > 0).all()
    assert noise.max() < 6 * noise.min()


@pytest.mark.parametrize("scale", [1e-6, 1e4])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.slow
def test_units_of_the_outcome_do_not_matter(scale, k):
    X, Y = repeats(12, k)
    first, second = MeanVarianceGP(X, Y), MeanVarianceGP(X, 5 + scale * Y)
    for model in (first, second):
        fit(model)
    test_X = points(5)
    expected = scale**2 * first.predicted_noise(test_X)
    torch.testing.assert_close(second.predicted_noise(test_X), expected, rtol=1e-4, atol=0)
    means = (model.mean_marginals(test_X).mean for model in (first, second))
    one, other = means
    torch.testing.assert_close((other - 5) / scale, one, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Expected repeats that differ")
def test_rows_without_spread_are_finite():
    X, Y = repeats()
    Y[:4] = Y[:4, :1]
    model = MeanVarianceGP(X, Y, keep_copies=True)
    fit(model)
    assert model.predicted_noise(X).isfinite().all() and model.predicted_noise(X).min() > 0


def test_a_state_is_restored_whatever_was_before():
    X, Y, model = learnt()
    fit(model)
    twin = MeanVarianceGP(X, Y)
    fit(twin, optimizer_kwargs={"options": {"maxiter": 2}})
    twin.load_state_dict(model.state_dict())
    assert_same(model, twin, points(5), rtol=1e-10, atol=1e-12)
