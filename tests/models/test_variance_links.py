r"""Scales of the noise variance against scipy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, polygamma

from botorch_risk.models.variance_links import LINKS


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_log_link_knows_bias_and_noise(k):
    variances = torch.tensor([[0.3], [2.0]], dtype=torch.double)
    counts = torch.full_like(variances, k)
    half = (k - 1) / 2
    expected = np.log(variances.numpy()) - digamma(half) + np.log(half)
    log = LINKS["log"]
    torch.testing.assert_close(log.observations(variances, counts), torch.as_tensor(expected))
    noise = log.observation_noise(variances, counts)
    torch.testing.assert_close(noise, torch.full_like(noise, float(polygamma(1, half))))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("k", [3, 6])
def test_observations_are_unbiased_with_the_stated_noise(link, k):
    truth = 1.7
    draws = np.random.default_rng(0).normal(scale=np.sqrt(truth), size=(200_000, k))
    variances = torch.as_tensor(draws.var(axis=-1, ddof=1)).unsqueeze(-1)
    counts = torch.full_like(variances, k)
    observations = LINKS[link].observations(variances, counts)
    expected = np.log(truth) if link == "log" else truth
    noise = LINKS[link].observation_noise(torch.full_like(variances, truth), counts)[0].item()
    assert observations.mean().item() == pytest.approx(expected, abs=4 * (noise / 2e5) ** 0.5)
    assert observations.var().item() == pytest.approx(noise, rel=0.05)


def test_log_link_has_the_moments_of_a_log_normal():
    mean, variance = torch.tensor([[0.3, -1.0], [0.2, 0.9]], dtype=torch.double)
    expected_noise = stats.lognorm(s=variance.sqrt().numpy(), scale=np.exp(mean.numpy()))
    torch.testing.assert_close(
        LINKS["log"].mean(mean, variance), torch.as_tensor(expected_noise.mean())
    )
    assert torch.equal(LINKS["log"].inverse(mean), mean.exp())


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("limit", [1e-30, 1e-3, 0.1, 10.0])
def test_no_spread_says_that_the_sample_variance_is_below_the_resolution(k, limit):
    r"""The observation turns the population into the posterior of a censored one."""
    mean, variance = -2.0, 0.8
    half = (k - 1) / 2

    def log_density(h):  # with the leading term of the gamma function where it underflows
        x = half * limit * np.exp(-h)
        if half * np.log(x) < -600:
            log_cdf = half * np.log(x) - gammaln(half + 1)
        else:
            log_cdf = stats.gamma.logcdf(x, half)
        return log_cdf + stats.norm.logpdf(h, mean, np.sqrt(variance))

    peak = minimize_scalar(lambda h: -log_density(h), bounds=(-80, 20), method="bounded").x
    moments = [
        quad(lambda h, p=p: h**p * np.exp(log_density(h) - log_density(peak)), peak - 9, peak + 9)[
            0
        ]
        for p in range(3)
    ]
    expected_mean = moments[1] / moments[0]
    expected_variance = moments[2] / moments[0] - expected_mean**2
    column = torch.ones(1, 1, dtype=torch.double)
    target, noise = LINKS["log"].censored_observations(
        limit * column, k * column, mean * column, variance * column
    )
    precision = 1 / variance + 1 / noise.item()
    combined = (mean / variance + target.item() / noise.item()) / precision
    assert combined == pytest.approx(expected_mean, rel=1e-4)
    assert 1 / precision == pytest.approx(expected_variance, rel=1e-4)


def test_identity_link_takes_no_spread_as_an_observation():
    variances = torch.tensor([[0.1], [0.0]])
    assert torch.equal(LINKS["identity"].observations(variances, 3 * variances), variances)
