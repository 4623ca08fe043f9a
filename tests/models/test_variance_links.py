r"""Scales of the noise variance against scipy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from scipy import stats
from scipy.special import digamma, polygamma

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
    law = stats.lognorm(s=variance.sqrt().numpy(), scale=np.exp(mean.numpy()))
    torch.testing.assert_close(LINKS["log"].mean(mean, variance), torch.as_tensor(law.mean()))
    assert torch.equal(LINKS["log"].inverse(mean), mean.exp())


def test_refuses_the_logarithm_of_no_spread():
    variances = torch.tensor([[[0.1], [0.2]], [[0.1], [0.0]]])
    with pytest.raises(InputDataError, match=r"row 1 of replicate \(1,\).*min_noise_variance"):
        LINKS["log"].observations(variances, torch.full_like(variances, 3))


def test_identity_link_scales_by_the_mean():
    transform = LINKS["identity"].outcome_transform(torch.Size())
    Y = torch.tensor([[1.0], [2.0], [6.0]])
    scaled, scaled_variance = transform(Y, torch.ones_like(Y))
    torch.testing.assert_close(scaled, (Y - 3.0) / 3.0)
    torch.testing.assert_close(scaled_variance, torch.ones_like(Y) / 9)
    transform.eval()
    torch.testing.assert_close(transform.untransform(scaled)[0], Y)
