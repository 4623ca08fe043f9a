r"""Noise that is learnt from sample variances and from the evidence of readings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from scipy import stats
from torch.distributions import MultivariateNormal

from botorch_risk.fit import FitStatus, fit_exact_gp
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from tests.models import oracles
from tests.models.examples import (
    SPREAD,
    assert_same,
    everything,
    fit,
    matern,
    points,
    repeats,
    set_process,
    small_model,
    with_missing,
)

NOISE = oracles.Process(np.array([0.4, 0.7]), 0.8, 0.1)
MEAN = oracles.Process(np.array([0.3, 0.5]), 1.4, -0.2)
LEVEL = 0.2

CASES = [
    ("log", None, True),
    ("identity", "inferred", False),
    ("identity", "inferred", True),
    ("identity", "bound", True),
    ("identity", "pointwise", False),
]


def example(link, sample_noise, missing, **options):
    X, Y = repeats()
    Y = with_missing(Y) if missing else Y
    model = MeanVarianceGP(
        X,
        Y,
        variance_link=link,
        sample_variance_noise=sample_noise,
        max_noise_variance=0.5,
        min_noise_variance=1e-3,
        covar_module=matern(),
        noise_covar_module=matern(),
        noise_evidence="spread",
        **{"noise_beta": 4.0, **options},
    )
    set_process(model.mean_model, MEAN.lengthscale, MEAN.outputscale, MEAN.constant)
    set_process(model.noise_model, NOISE.lengthscale, NOISE.outputscale, NOISE.constant)
    if sample_noise == "inferred":
        model.noise_model.likelihood.noise = LEVEL
    model.refresh_noise()
    return model, X.numpy(), Y.numpy()


def assert_close(actual, expected):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("link", "sample_noise", "missing"), CASES)
@pytest.mark.parametrize("standardize", [False, True])
def test_model_equals_the_equations(link, sample_noise, missing, standardize):
    options = {} if standardize else {"outcome_transform": None}
    model, X, Y = example(link, sample_noise, missing, **options)
    test_X = np.random.default_rng(0).random((6, 2))
    points = torch.as_tensor(test_X)

    def process_at(points):
        return oracles.noise_process(X, Y, points, NOISE, link, sample_noise, 0.5, LEVEL)

    mean, variance = oracles.noise_moments(process_at(test_X), link)
    posterior = model.noise_posterior(points)
    assert_close(posterior.mean.squeeze(-1), mean)
    assert_close(posterior.variance.squeeze(-1), variance)
    assert_close(model.predicted_noise(points).squeeze(-1), mean.clip(1e-3, 0.5))
    for beta in (0.0, 1.96**2):
        bounds = oracles.noise_bounds(process_at(test_X), beta, link)
        for actual, expected in zip(
            model.noise_confidence_bounds(points, beta), bounds, strict=True
        ):
            assert_close(actual, expected)
    upper = oracles.noise_bounds(process_at(X), 4.0, link)[1].clip(1e-3, 0.5)  # Eq. (16)
    counts = oracles.statistics(Y)[2]
    assert_close(
        model.noise_of_means(torch.as_tensor(X), model.train_counts).squeeze(-1), upper / counts
    )
    mean, variance = oracles.mean_process(X, Y, upper, test_X, MEAN, standardize)
    posterior = model.posterior(points)
    assert_close(posterior.mean.squeeze(-1), mean)
    assert_close(posterior.variance.squeeze(-1), variance)
    lower_f, upper_f = model.confidence_bounds(points, 4.0)  # Eq. (7)
    assert_close(lower_f, mean - 2 * np.sqrt(variance))
    assert_close(upper_f, mean + 2 * np.sqrt(variance))


def test_bounds_are_quantiles_on_the_logarithmic_scale():
    model, X, Y = example("log", None, True)
    test_X = np.random.default_rng(0).random((6, 2))
    mean, variance = oracles.noise_process(X, Y, test_X, NOISE, "log", None)
    expected_noise = stats.lognorm(s=np.sqrt(variance), scale=np.exp(mean))
    z = stats.norm.ppf(0.975)
    for actual, level in zip(
        model.noise_confidence_bounds(torch.as_tensor(test_X), z**2), (0.025, 0.975), strict=True
    ):
        assert_close(actual, expected_noise.ppf(level))


def test_pointwise_noise_follows_the_upper_bound():
    model, X, Y = example("identity", "pointwise", False)
    upper = oracles.noise_bounds(
        oracles.noise_process(X, Y, X, NOISE, "identity", "pointwise"), 4.0, "identity"
    )[1].clip(1e-3, 0.5)
    model.noise.refresh_pointwise_noise()
    scale = oracles.statistics(Y)[1].mean()
    expected = 2 * upper**2 / (Y.shape[-1] - 1) / scale**2
    assert_close(model.noise_model.likelihood.noise, expected)


@pytest.mark.parametrize(("link", "sample_noise", "missing"), CASES)
def test_bounds_after_repeats_are_those_of_a_conditioned_process(link, sample_noise, missing):
    model, _, _ = example(link, sample_noise, missing)
    X = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    counts = torch.tensor(5.0, dtype=torch.double)
    after = model.noise.bounds_after_repeats(X, 4.0, counts)
    for i in range(3):
        point = X[i : i + 1].detach()
        conditioned = model.noise.conditioned(point, counts, None).bounds(point, 4.0)
        for value, expected in zip(after, conditioned, strict=True):
            torch.testing.assert_close(value[i : i + 1], expected, rtol=1e-6, atol=1e-8)
    assert torch.autograd.grad(after[0].sum(), X)[0].isfinite().all()
    before = model.noise.bounds(X, 4.0)
    single = model.noise.bounds_after_repeats(X, 4.0, torch.ones(3, dtype=torch.double))
    for value, expected in zip(single, before, strict=True):
        torch.testing.assert_close(value, expected)
    assert torch.autograd.grad(single[0].sum(), X)[0].isfinite().all()


def test_single_repeats_have_no_spread():
    X, Y = repeats()
    missing = with_missing(Y)
    alone = torch.tensor([0, 4])
    several = torch.tensor([1, 2, 3, 5, 6, 7, 8, 9])
    moved = missing.clone()
    moved[alone] += 5
    models = [
        MeanVarianceGP(X, missing, **SPREAD),
        MeanVarianceGP(X, moved, **SPREAD),
        MeanVarianceGP(X[several], missing[several], **SPREAD),
    ]
    test_X = torch.rand(4, 2, dtype=torch.double)
    first, *others = (model.noise_posterior(test_X).mean for model in models)
    for other in others:
        torch.testing.assert_close(first, other)
    assert not torch.allclose(*(model.posterior(test_X).mean for model in models[:2]), rtol=1e-3)


@pytest.mark.parametrize("link", ["log", "identity"])
def test_entries_without_repeats_in_a_batch_are_worthless(link):
    X, Y = repeats(batch_shape=(2,))
    Y[1] = with_missing(Y[1])
    choice = None if link == "log" else "pointwise"
    options = {"variance_link": link, "sample_variance_noise": choice, "min_noise_variance": 1e-3}
    options |= SPREAD
    together = MeanVarianceGP(X, Y, **options)
    test_X = torch.rand(4, 2, dtype=torch.double)
    moved = Y.clone()
    moved[1, 0, 0] += 1.0  # the one repeat of its row
    other = MeanVarianceGP(X, moved, **options)
    torch.testing.assert_close(
        together.noise_posterior(test_X.expand(2, 4, 2)).variance,
        other.noise_posterior(test_X.expand(2, 4, 2)).variance,
    )
    torch.testing.assert_close(
        together.noise_posterior(test_X.expand(2, 4, 2)).mean,
        other.noise_posterior(test_X.expand(2, 4, 2)).mean,
    )


def test_identity_link_refuses_a_noise_that_is_not_positive_once_it_is_needed():
    # Sixteen quiet points and a loud one: the process falls below zero between them.
    X = torch.linspace(0, 1, 17, dtype=torch.double).unsqueeze(-1)
    Y = X.sin() + 0.01 * torch.randn(17, 5, dtype=torch.double)
    Y[8] = 5 * torch.randn(5, dtype=torch.double)
    options = {"variance_link": "identity", "noise_beta": 0.0}
    refused = MeanVarianceGP(X, Y, **options)  # the bound is not needed before the fit
    assert refused.predicted_noise(X).shape == (17, 1)
    for need in (
        lambda: refused.posterior(X),
        lambda: refused.confidence_bounds(X, 4.0),
        lambda: refused(X),
        refused.refresh_noise,
    ):
        with pytest.raises(ValueError, match=r"positive upper bound.*set `min_noise_variance`"):
            need()
    model = MeanVarianceGP(X, Y, min_noise_variance=1e-4, **options)
    noise = model.noise_of_means(X, 5)
    assert noise.min().item() == pytest.approx(1e-4 / 5)
    assert (model.noise_confidence_bounds(X, 4.0)[0] < 0).any()  # as in the paper


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


def test_replicates_of_a_batch_do_not_touch():
    X, Y, model = learnt(batch_shape=(2,))
    result = fit_exact_gp(model)
    assert result.status == (FitStatus.CONVERGED,) * 2
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


def test_spread_refuses_single_readings():
    X, Y = repeats(k=1)
    many = repeats(batch_shape=(3,))
    many[1][1, :, 1:] = torch.nan
    with pytest.raises(InputDataError, match=r"two repeats or more.*or give `known_noise`"):
        MeanVarianceGP(X, Y, noise_evidence="spread")
    with pytest.raises(InputDataError, match=r"two repeats or more.*"):
        MeanVarianceGP(X, Y, variance_link="identity")
    with pytest.raises(InputDataError, match=r"two repeats or more.* in replicate 1"):
        MeanVarianceGP(*many, noise_evidence="spread")


@pytest.mark.parametrize("scale", [1e-6, 1e4])
@pytest.mark.parametrize("k", [1, 3])
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
    model = MeanVarianceGP(X, Y)
    fit(model)
    assert model.predicted_noise(X).isfinite().all() and model.predicted_noise(X).min() > 0


def test_a_state_is_restored_whatever_was_before():
    X, Y, model = learnt()
    fit(model)
    twin = MeanVarianceGP(X, Y)
    fit(twin, optimizer_kwargs={"options": {"maxiter": 2}})
    twin.load_state_dict(model.state_dict())
    assert_same(model, twin, points(5), rtol=1e-10, atol=1e-12)


def test_bad_choices():
    X, Y = repeats()
    with pytest.raises(ValueError, match=r"`noise_evidence` 'readings' or 'spread'\. Got 'all'"):
        MeanVarianceGP(X, Y, noise_evidence="all")
    with pytest.raises(UnsupportedError, match="Expected the log link"):
        MeanVarianceGP(X, Y, noise_evidence="readings", variance_link="identity")
    with pytest.raises(UnsupportedError, match="noise that is to be learnt"):
        MeanVarianceGP(X, Y, torch.ones_like(Y), noise_evidence="readings")


def test_the_default_evidence():
    X, Y = repeats()
    assert MeanVarianceGP(X, Y).noise.evidence == "readings"
    assert MeanVarianceGP(X, Y, variance_link="identity").noise.evidence == "spread"
    assert MeanVarianceGP(X, Y, torch.ones_like(Y)).noise.evidence == "spread"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance_link": "sqrt"}, "`variance_link` in .*'sqrt'"),
        ({"sample_variance_noise": "bound"}, "no `sample_variance_noise` with the log link"),
        (
            {"variance_link": "identity", "sample_variance_noise": "other"},
            "`sample_variance_noise` in .*'other'",
        ),
        (
            {"variance_link": "identity", "sample_variance_noise": "bound"},
            "`max_noise_variance` with",
        ),
        ({"noise_beta": -1.0}, "`noise_beta` to be finite and >= 0. Got -1.0"),
        ({"noise_beta": float("nan")}, "`noise_beta` to be finite and >= 0. Got nan"),
        ({"min_noise_variance": 0.0}, "`min_noise_variance` to be finite and > 0"),
        ({"max_noise_variance": float("inf")}, "`max_noise_variance` to be finite and > 0"),
        (
            {"min_noise_variance": 2.0, "max_noise_variance": 1.0},
            "`min_noise_variance` <= `max_noise_variance`",
        ),
    ],
)
def test_refuses_choices_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        small_model(**options)


def test_refuses_one_noise_level_for_ragged_batches():
    X, Y = repeats(batch_shape=(2,))
    Y[1] = with_missing(Y[1])
    with pytest.raises(UnsupportedError, match="same rows of every replicate"):
        MeanVarianceGP(X, Y, variance_link="identity")
