r"""A known noise, and the limits of the noise variance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.noise_process import KnownNoise, NoiseLimits
from botorch_risk.models.repeats import RepeatedOutcomes
from tests.models import oracles
from tests.models.examples import matern, repeats, set_process

MEAN = oracles.Process(np.array([0.3, 0.5]), 1.4, -0.2)


def assert_close(actual, expected):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("link", ["log", "identity"])
def test_known_noise_is_taken_as_it_is(link):
    X, Y = repeats(k=1)
    model = MeanVarianceGP(
        X, Y, known_noise=lambda X: 0.1 + X[..., :1], variance_link=link, covar_module=matern()
    )
    set_process(model.mean_model, MEAN.lengthscale, MEAN.outputscale, MEAN.constant)
    test_X = torch.rand(5, 2, dtype=torch.double)
    known = 0.1 + test_X[:, 0]
    for value in (*model.noise_confidence_bounds(test_X, 9.0), model.predicted_noise(test_X)[:, 0]):
        torch.testing.assert_close(value, known)
    for value in model.noise.bounds_after_repeats(test_X, 9.0, torch.tensor(4.0)):
        torch.testing.assert_close(value, known)
    expected = oracles.mean_process(
        X.numpy(), Y.numpy(), 0.1 + X.numpy()[:, 0], test_X.numpy(), MEAN, True
    )
    posterior = model.posterior(test_X)
    assert_close(posterior.mean.squeeze(-1), expected[0])
    assert_close(posterior.variance.squeeze(-1), expected[1])


def test_limits_clip():
    values = torch.tensor([-1.0, 0.2, 3.0])
    assert torch.equal(NoiseLimits().apply(values), values)
    assert NoiseLimits(floor=0.1, ceiling=1.0).apply(values).tolist() == pytest.approx(
        [0.1, 0.2, 1.0]
    )


def test_noise_of_rows_is_that_of_their_means():
    r"""Known noise over the counts; rows without an outcome weigh nothing."""
    X = torch.rand(3, 2, dtype=torch.double)
    Y = torch.tensor([[1.0, 2.0, 3.0], [4.0, torch.nan, torch.nan], [torch.nan] * 3]).double()
    outcomes = RepeatedOutcomes.from_repeats(Y, allow_missing=True)
    noise = KnownNoise(lambda X: 0.1 + X[..., :1], NoiseLimits())
    variances, positive = noise.of_rows(X, outcomes, 4.0)
    known = 0.1 + X[:, 0]
    torch.testing.assert_close(variances[:2, 0], known[:2] / torch.tensor([3.0, 1.0]).double())
    assert variances[2, 0] > 1e8
    assert positive
    shifted = KnownNoise(lambda X: X[..., :1] - 2, NoiseLimits())
    assert not shifted.of_rows(X, outcomes, 4.0)[1]
