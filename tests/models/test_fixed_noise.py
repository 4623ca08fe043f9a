r"""The noise of the rows: its units, its state, and points where it is unknown."""

from __future__ import annotations

import copy

import pytest
import torch
from botorch.exceptions.errors import (
    UnsupportedError,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from gpytorch.settings import min_fixed_noise

from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.fixed_noise import (
    fixed_noise_gp,
    least_noise,
    set_fixed_noise,
    split_state,
)
from tests.models.examples import (
    SHAPES,
    UNSCALED,
    fit,
    noise_in_use,
    points,
    repeats,
    small_model,
)


@UNSCALED
def test_noise_follows_the_outcome_transform_squared():
    X, Y = repeats()
    for transform in (None, Standardize(1)):
        model = MeanVarianceGP(X, Y, outcome_transform=transform)
        expected = model.noise_of_means(model.train_X, model.train_counts)
        torch.testing.assert_close(noise_in_use(model), expected)
    test_X = points(5)
    shifted = MeanVarianceGP(X, 100 * Y + 7)
    model = MeanVarianceGP(X, Y)
    torch.testing.assert_close(
        shifted.posterior(test_X).mean, 100 * model.posterior(test_X).mean + 7
    )
    torch.testing.assert_close(shifted.predicted_noise(test_X), 1e4 * model.predicted_noise(test_X))


@pytest.mark.parametrize("link", ["log", "identity"])
@pytest.mark.parametrize("batch_shape", SHAPES[:2], ids=str)
def test_known_noise_levels_weigh_the_mean_and_are_interpolated(link, batch_shape):
    X, _ = repeats(n=25, batch_shape=batch_shape)
    levels = 0.1 + X[..., :1].square()
    Y = (3 * X).sin().sum(dim=-1, keepdim=True) + levels.sqrt() * torch.randn_like(levels)
    model = MeanVarianceGP(X, Y, levels, variance_link=link)
    torch.testing.assert_close(noise_in_use(model), levels)  # not Eq. (16), which is cautious
    fit(model)
    torch.testing.assert_close(noise_in_use(model), levels)
    test_X = 0.1 + 0.8 * points(*batch_shape, 6)
    truth = 0.1 + test_X[..., :1].square()
    torch.testing.assert_close(model.predicted_noise(test_X), truth, rtol=0.05, atol=0.02)
    if not batch_shape:
        plain = SingleTaskGP(X, Y, levels, covar_module=copy.deepcopy(model.covar_module))
        plain.load_state_dict(model.mean_model.state_dict(), strict=False)
        plain.outcome_transform.load_state_dict(model.outcome_transform.state_dict())
        torch.testing.assert_close(plain.posterior(test_X).mean, model.posterior(test_X).mean)
        again = model.condition_on_observations(test_X[:1], Y[:1])
        assert again.posterior(test_X).mean.isfinite().all()
        with pytest.raises(UnsupportedError, match="no `variances` where noise levels came"):
            model.condition_on_observations(test_X[:1], Y[:1], variances=levels[:1])


@pytest.mark.parametrize("n", [5, 10])  # 10: as many as training rows
def test_the_likelihood_refuses_noise_that_it_does_not_know(n):
    model, X = small_model().eval(), points(n)
    with pytest.raises(UnsupportedError, match=r"`model.posterior\(X, observation_noise=True\)`"):
        model.likelihood(model(X))
    with pytest.raises(UnsupportedError, match="noise at new points"):
        model.likelihood(model(X), X)
    noise = torch.full((n,), 0.3, dtype=torch.double)
    added = model.likelihood(model(X), noise=noise).variance - model(X).variance
    torch.testing.assert_close(added, noise)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_a_process_has_the_noise_of_its_rows_without_a_warning():
    r"""As `SingleTaskGP` with `train_Yvar`, which warns where it raises small noise."""
    X, Y = repeats()
    Y, noise = Y[:, :1], torch.full_like(Y[:, :1], 0.3)
    model, plain = fixed_noise_gp(X, Y, noise, Standardize(1)), SingleTaskGP(X, Y, noise)
    test_X = points(4)
    assert torch.equal(model.posterior(test_X).mean, plain.posterior(test_X).mean)
    for dtype, floor in ((torch.double, 1e-8), (torch.float, min_fixed_noise.value(torch.float))):
        data = (each.to(dtype) for each in (X, Y, 1e-12 * noise))
        quiet = fixed_noise_gp(*data, Standardize(1))
        assert (quiet.likelihood.noise == floor).all()
        in_units_of_the_outcome = floor * quiet.outcome_transform.stdvs.square()
        torch.testing.assert_close(least_noise(quiet).squeeze(), in_units_of_the_outcome.squeeze())


def test_replaced_noise_is_used_and_saved():
    X, Y = repeats()
    Y, noise = Y[:, :1], torch.full_like(Y[:, :1], 0.3)
    model, test_X = fixed_noise_gp(X, Y, noise, Standardize(1)), points(4)
    model.posterior(test_X)  # with the old noise
    set_fixed_noise(model, 2 * noise)
    expected = SingleTaskGP(X, Y, 2 * noise).posterior(test_X).variance
    torch.testing.assert_close(model.posterior(test_X).variance, expected)
    key = "likelihood.noise_covar.noise"
    assert torch.equal(model.state_dict()[key], model.likelihood.noise)
    assert model.float().likelihood.noise.dtype == torch.float32


def test_states_are_split_by_their_parts():
    state = {"mean_model.a.b": 1, "noise.c": 2}
    assert split_state(state, ("mean_model", "noise"), strict=True) == {
        "mean_model": {"a.b": 1},
        "noise": {"c": 2},
    }
    assert split_state(state, ("noise",), strict=False) == {"noise": {"c": 2}}
    with pytest.raises(RuntimeError, match=r"Expected keys of the parts .*Got 'mean_model.a.b'"):
        split_state(state, ("noise",), strict=True)
