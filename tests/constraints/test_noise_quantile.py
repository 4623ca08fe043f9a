r"""What one evaluation exceeds with a given probability, with the noise that was learnt."""

from __future__ import annotations

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from scipy.stats import norm

from botorch_risk.constraints.noise_quantile import NoiseQuantileModel, normal_quantile
from tests.contracts import RepeatedData, mean_variance_gp
from tests.models.risks import gp


@pytest.mark.parametrize("minimized", [False, True])
def test_an_evaluation_exceeds_the_quantile_as_often_as_promised(minimized: bool) -> None:
    model = mean_variance_gp(RepeatedData.make())
    X = torch.rand(5, 2, dtype=torch.float64)
    quantile = NoiseQuantileModel(model, 0.1, minimized).posterior(X).mean.squeeze(-1)
    f, noise = model.posterior(X).mean.squeeze(-1), model.predicted_noise(X).squeeze(-1)
    sign = -1 if minimized else 1
    standard = ((quantile - sign * f) / noise.sqrt()).detach()
    torch.testing.assert_close(
        torch.from_numpy(norm.sf(standard.numpy())), torch.full((5,), 0.9).double()
    )


def test_the_uncertainty_is_that_of_f() -> None:
    model = mean_variance_gp(RepeatedData.make())
    X = torch.rand(4, 3, 2, dtype=torch.float64)
    posterior = NoiseQuantileModel(model, 0.1).posterior(X)
    torch.testing.assert_close(posterior.variance, model.posterior(X).variance)
    assert posterior.rsample(torch.Size([5])).shape == (5, 4, 3, 1)
    transform = ScalarizedPosteriorTransform(torch.tensor([2.0], dtype=torch.float64))
    doubled = NoiseQuantileModel(model, 0.1).posterior(X, posterior_transform=transform)
    torch.testing.assert_close(doubled.mean, 2 * posterior.mean)


def test_bad_input() -> None:
    model = NoiseQuantileModel(mean_variance_gp(RepeatedData.make((2,))), 0.5)
    assert model.batch_shape == (2,)
    assert model.num_outputs == 1
    assert model.z == 0
    with pytest.raises(UnsupportedError, match="a quantile is not observed"):
        model.posterior(torch.rand(2, 3, 2).double(), observation_noise=True)
    with pytest.raises(UnsupportedError, match=r"knows its noise. Got SingleTaskGP"):
        NoiseQuantileModel(gp(), 0.1)
    for delta in (0.0, 1.0):
        with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)"):
            normal_quantile(delta)
