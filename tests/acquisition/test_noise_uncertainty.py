r"""Where the noise is known least; the values are in the cases."""

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.acquisition.mean_variance import NoisePosteriorStandardDeviation
from botorch_risk.models import MeanVarianceGP
from tests.contracts import RepeatedData, mean_variance_gp, of_decision, repeated_data


def test_it_is_least_at_the_data_and_falls_where_points_are_pending() -> None:
    data = repeated_data()
    model = mean_variance_gp(data)
    acqf = NoisePosteriorStandardDeviation(model)
    far = torch.full((1, 1, 2), 3.0, dtype=torch.float64)
    assert (acqf(data.X.unsqueeze(-2)) < acqf(far)).all()
    conditioned = NoisePosteriorStandardDeviation(model, X_pending=far[0])
    assert conditioned(far) < 0.9 * acqf(far)


def test_outcomes_do_not_change_it() -> None:
    r"""The variance of a sample variance is known, whatever the sample."""
    data = repeated_data()
    other = RepeatedData(data.X, 5 - 2 * data.Y)
    points = torch.rand(6, 1, 2, dtype=torch.float64)
    values = [
        NoisePosteriorStandardDeviation(mean_variance_gp(each))(points) for each in (data, other)
    ]
    torch.testing.assert_close(*values)


def test_refuses_models_that_do_not_learn_their_noise() -> None:
    data = repeated_data()
    known = MeanVarianceGP(data.X, data.Y, known_noise=lambda X: 0.1 + X[..., :1])
    for model in (known, of_decision(data)):
        with pytest.raises(UnsupportedError, match=r"that learns its noise\. Got"):
            NoisePosteriorStandardDeviation(model)
