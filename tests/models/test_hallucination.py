r"""Models that are conditioned on their own means at pending points."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP

from botorch_risk.models.hallucination import condition_on_mean
from tests.models.examples import points, repeats, small_model


@pytest.mark.parametrize("noise", [None, 0.2], ids=["inferred", "fixed"])
def test_the_mean_stays_and_the_variance_shrinks(noise):
    X, Y = repeats()
    given = None if noise is None else torch.full_like(Y[:, :1], noise)
    model, pending, test_X = SingleTaskGP(X, Y[:, :1], given), points(3), points(5)
    conditioned = condition_on_mean(model, pending)
    before, after = model.posterior(test_X), conditioned.posterior(test_X)
    torch.testing.assert_close(after.mean, before.mean, rtol=1e-6, atol=1e-6)
    assert (after.variance < before.variance).all()


def test_fixed_noise_is_the_average_of_the_data():
    X, Y = repeats()
    given = 0.1 + X[:, :1]
    conditioned = condition_on_mean(SingleTaskGP(X, Y[:, :1], given), points(2))
    added = conditioned.likelihood.noise[-2:]
    torch.testing.assert_close(added, conditioned.likelihood.noise[:-2].mean().expand(2))


def test_a_mean_variance_model_conditions_both_processes():
    model, pending, test_X = small_model(), points(2), points(4)
    ours, own = condition_on_mean(model, pending), model.condition_on_pending(pending)
    assert torch.equal(ours.posterior(test_X).variance, own.posterior(test_X).variance)
    assert torch.equal(ours.noise_posterior(test_X).variance, own.noise_posterior(test_X).variance)


def test_pending_points_have_the_columns_of_the_model():
    with pytest.raises(BotorchTensorDimensionError, match="`X_pending` to have the 2 columns"):
        condition_on_mean(small_model(), torch.rand(3, 1, dtype=torch.double))
