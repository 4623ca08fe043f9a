r"""Links between sample variances and the noise process, and scales of observations."""

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.transforms import Standardize
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, polygamma

from botorch_risk.models.outcome_scales import MeanScale, SignalScale, StandardDeviationScale
from botorch_risk.models.variance_links import LINKS
from tests.oracles import spread_of_the_noise


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


def observations(batch_shape=(), n=9):
    Y = torch.randn(*batch_shape, n, 1, dtype=torch.double) + 3
    observed = torch.rand(*batch_shape, n, 1) > 0.4
    observed[..., :2, :] = True
    return Y, observed


def scales(observed, noise):
    default = torch.ones(*observed.shape[:-2], 1, 1, dtype=torch.double)
    return (
        StandardDeviationScale(observed),
        MeanScale(observed, default),
        SignalScale(observed, noise),
    )


@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)], ids=str)
def test_a_replicate_is_scaled_by_its_observed_entries(batch_shape):
    Y, observed = observations(batch_shape)
    noise = torch.rand_like(Y)
    filled = Y.where(observed, torch.full_like(Y, 1e6))
    for position in range(3):
        together = scales(observed, noise)[position]
        Z, scaled_variance = together(filled, torch.ones_like(Y))
        torch.testing.assert_close(together.untransform(Z, scaled_variance)[0], filled)
        for index in np.ndindex(*batch_shape):
            kept = observed[index].squeeze(-1)
            one = scales(observed[index][kept], noise[index][kept])[position]
            alone, alone_variance = one(Y[index][kept], torch.ones_like(Y[index][kept]))
            torch.testing.assert_close(Z[index][kept], alone)
            torch.testing.assert_close(scaled_variance[index][kept], alone_variance)


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1.0, 1e30])
def test_equals_standardize_at_any_scale(scale):
    Y, observed = observations()
    everything = torch.ones_like(observed)
    expected, _ = Standardize(m=1)(Y)
    torch.testing.assert_close(StandardDeviationScale(everything)(scale * Y)[0], expected)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_outcomes_are_centred_only(value):
    Y = torch.full((7, 1), value, dtype=torch.double)
    transform = StandardDeviationScale(torch.ones(7, 1, dtype=torch.bool))
    Z, _ = transform(Y)
    assert transform.stdvs.item() == 1.0
    torch.testing.assert_close(Z, torch.zeros_like(Z), atol=1e-6, rtol=0)


def test_sample_variances_are_scaled_by_their_mean():
    Y = torch.tensor([[1.0], [2.0], [6.0]])
    default = torch.full((1, 1), 0.5)
    transform = MeanScale(torch.ones(3, 1, dtype=torch.bool), default)
    scaled, scaled_variance = transform(Y, torch.ones_like(Y))
    torch.testing.assert_close(scaled, (Y - 3.0) / 3.0)
    torch.testing.assert_close(scaled_variance, torch.ones_like(Y) / 9)
    transform.eval()
    torch.testing.assert_close(transform.untransform(scaled)[0], Y)
    assert MeanScale(torch.ones(3, 1, dtype=torch.bool), default)(0 * Y)[0].tolist() == [[0.0]] * 3


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("noise", [0.1, 4.93])
def test_the_scale_of_the_noise_leaves_out_what_its_observations_add(spread, noise):
    Y = spread * torch.randn(20, 1, dtype=torch.double)
    transform = SignalScale(torch.ones(20, 1, dtype=torch.bool), torch.full_like(Y, noise))
    transform(Y)
    assert transform.stdvs.item() == pytest.approx(spread_of_the_noise(Y.numpy(), noise))


def test_the_scale_of_the_noise_tends_to_the_truth():
    torch.manual_seed(0)
    Y = (2.0 + 4.93) ** 0.5 * torch.randn(100_000, 1, dtype=torch.double)
    transform = SignalScale(torch.ones(len(Y), 1, dtype=torch.bool), torch.full_like(Y, 4.93))
    transform(Y)
    assert transform.stdvs.item() ** 2 == pytest.approx(2.0, rel=0.05)


def test_one_observation_has_the_typical_scale():
    Y = torch.tensor([[5.0]], dtype=torch.double)
    transform = SignalScale(torch.ones(1, 1, dtype=torch.bool), torch.full_like(Y, 4.93))
    assert transform(Y)[0].item() == 0.0
    assert transform.stdvs.item() ** 2 == pytest.approx(0.75)


def test_refuses_outcomes_of_another_shape():
    with pytest.raises(BotorchTensorDimensionError, match=r"outcomes of shape .*3, 1"):
        StandardDeviationScale(torch.ones(3, 1, dtype=torch.bool))(torch.ones(4, 1))
