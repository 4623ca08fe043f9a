r"""Scales of observations: statistics of the observed entries alone, at any scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.transforms import Standardize

from botorch_risk.models.variance_links import MeanScale, SignalScale, StandardDeviationScale
from tests.oracles import spread_of_the_noise


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
