r"""The evidence of all readings against the likelihood of every single reading."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from torch.distributions import MultivariateNormal

from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.models.learnt_noise import ReadingEvidence, observations_at_mode, prior_of
from tests.models.examples import assert_same, fit, points, repeats, with_missing


def learnt(n=10, k=4, batch_shape=()):
    X, Y = repeats(n, k, batch_shape=batch_shape)
    Y = with_missing(Y)
    return X, Y, MeanVarianceGP(X, Y, noise_evidence="readings")


def evidence_of(model):
    return ReadingEvidence.of(model.mean_model, model._outcomes, model.noise.resolution)


def log_likelihood(model, Y, h):
    r"""The density of all readings, one Gaussian over the rows as they were measured."""
    rows, column = Y.isfinite().nonzero(as_tuple=True)
    y = Y[rows, column]
    scale = model.outcome_transform
    mean, covariance = prior_of(model.mean_model)
    mean = scale.means.squeeze() + scale.stdvs.squeeze() * mean
    covariance = scale.stdvs.squeeze() ** 2 * covariance
    joint = covariance[rows][:, rows] + torch.diag_embed(h.exp()[rows])
    return MultivariateNormal(mean[rows], joint).log_prob(y)


def test_slope_is_that_of_the_likelihood_of_every_reading():
    _, Y, model = learnt()
    h = torch.randn(10, dtype=torch.double).requires_grad_()
    (expected,) = torch.autograd.grad(log_likelihood(model, Y, h), h)
    targets, noise = evidence_of(model).observations(h.detach())
    torch.testing.assert_close((targets - h.detach()) / noise, expected)


def test_weight_is_the_expected_curvature_of_its_own_row():
    r"""Half the squared correlation of the readings: the trace form of the Fisher information."""
    _, Y, model = learnt()
    h = torch.randn(10, dtype=torch.double)
    rows, _ = Y.isfinite().nonzero(as_tuple=True)
    scale = model.outcome_transform.stdvs.squeeze() ** 2
    covariance = scale * prior_of(model.mean_model)[1][rows][:, rows]
    precision = torch.linalg.inv(covariance + torch.diag(h.exp()[rows]))
    for i in range(10):
        slope = torch.diag(h.exp()[rows] * (rows == i))
        expected = 0.5 * torch.trace(precision @ slope @ precision @ slope)
        torch.testing.assert_close(1 / evidence_of(model).observations(h)[1][i], expected)


def test_the_mode_is_stationary():
    _, Y, model = learnt()
    mean = torch.full((10,), -2.0, dtype=torch.double)
    covariance = 0.5 * prior_of(model.noise_model)[1]
    targets, noise = observations_at_mode(evidence_of(model), mean, covariance)
    gain = torch.linalg.solve(covariance + torch.diag(noise), targets - mean)
    h = (mean + covariance @ gain).requires_grad_()
    (slope,) = torch.autograd.grad(log_likelihood(model, Y, h), h)
    torch.testing.assert_close(covariance @ slope, h.detach() - mean, rtol=1e-4, atol=1e-4)


def test_replicates_of_a_batch_do_not_touch():
    X, Y, model = learnt(batch_shape=(2,))
    fit(model)
    test_X = torch.rand(2, 5, 2, dtype=torch.double)
    for i in range(2):
        one = MeanVarianceGP(X[i], Y[i], noise_evidence="readings")
        state = {name: value[i] for name, value in model.state_dict().items() if value.dim()}
        one.load_state_dict({**one.state_dict(), **state}, keep_transforms=False)
        for mine, theirs in zip(
            one.noise_confidence_bounds(test_X[i], 4.0),
            model.noise_confidence_bounds(test_X, 4.0),
            strict=True,
        ):
            torch.testing.assert_close(mine, theirs[i], rtol=1e-5, atol=1e-7)


def test_single_readings_show_where_the_noise_is():
    r"""Repeats in the quiet half alone; single readings scatter in the other."""
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0, 1, 60, dtype=torch.double).unsqueeze(-1)
    rho = torch.where(X > 0.5, 1.0, 0.05)
    Y = (2 * X).sin() + rho * torch.randn(60, 3, generator=generator, dtype=torch.double)
    Y[30:, 1:] = torch.nan
    at = torch.tensor([[0.9]], dtype=torch.double)
    found = {}
    for evidence in ("spread", "readings"):
        model = MeanVarianceGP(X, Y, noise_evidence=evidence)
        model.fit_processes(lambda process: not fit_exact_gp(process).has_failed)
        found[evidence] = model.noise_confidence_bounds(at, 0.0)[0].item()
    assert found["spread"] < 0.1 and 0.4 < found["readings"] < 2.0


@pytest.mark.filterwarnings("ignore:Expected repeats that differ")
def test_rows_without_spread_are_finite():
    X, Y = repeats()
    Y[:4] = Y[:4, :1]
    model = MeanVarianceGP(X, Y, noise_evidence="readings")
    fit(model)
    assert model.predicted_noise(X).isfinite().all() and model.predicted_noise(X).min() > 0


def test_a_state_is_restored_whatever_was_before():
    X, Y, model = learnt()
    fit(model)
    twin = MeanVarianceGP(X, Y, noise_evidence="readings")
    fit(twin, optimizer_kwargs={"options": {"maxiter": 2}})
    twin.load_state_dict(model.state_dict())
    assert_same(model, twin, points(5), rtol=1e-10, atol=1e-12)


def test_bad_choices():
    X, Y = repeats()
    with pytest.raises(ValueError, match=r"`noise_evidence` 'spread' or 'readings'\. Got 'all'"):
        MeanVarianceGP(X, Y, noise_evidence="all")
    with pytest.raises(UnsupportedError, match="Expected the log link"):
        MeanVarianceGP(X, Y, noise_evidence="readings", variance_link="identity")
    with pytest.raises(UnsupportedError, match="noise that is to be learnt"):
        MeanVarianceGP(X, Y, torch.ones_like(Y), noise_evidence="readings")
    outcomes = RepeatedOutcomes.from_repeats(Y)
    assert MeanVarianceGP(X, outcomes, noise_evidence="readings").noise.num_alternations == 1
