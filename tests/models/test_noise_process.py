r"""The process of the noise: its observations, and noise that is known."""

import copy

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from gpytorch.settings import min_fixed_noise

from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.fixed_noise import (
    fixed_noise_gp,
    least_noise,
    set_fixed_noise,
    split_state,
)
from botorch_risk.models.noise_process import KnownNoise, NoiseLimits
from botorch_risk.models.repeats import RepeatedOutcomes
from tests.models import oracles
from tests.models.examples import (
    SHAPES,
    UNSCALED,
    fit,
    matern,
    noise_in_use,
    points,
    repeats,
    set_process,
    small_model,
)

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
    assert positive.all()
    shifted = KnownNoise(lambda X: X[..., :1] - 2, NoiseLimits())
    assert not shifted.of_rows(X, outcomes, 4.0)[1].all()


def fitted(model):
    model.fit_processes(lambda process: bool(fit_exact_gp(process)))
    return model.eval()


@pytest.mark.parametrize("link", ["log", "identity"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.slow
def test_a_true_floor_leaves_the_noise_where_it_is(link, k):
    r"""The floor bounds rho^2: a sample variance below it is an observation like any other."""
    torch.manual_seed(0)
    X = torch.rand(200, 1, dtype=torch.double)
    Y = X + 0.1 * torch.randn(200, k, dtype=torch.double)
    free, bounded = (
        fitted(MeanVarianceGP(X, Y, variance_link=link, min_noise_variance=floor))
        for floor in (None, 0.01)
    )
    expected = free.predicted_noise(X).clamp_min(0.01)
    torch.testing.assert_close(bounded.predicted_noise(X), expected, rtol=0.05, atol=0)
    assert bounded.predicted_noise(X).median().item() == pytest.approx(0.01, rel=0.15)


def test_no_spread_with_a_floor_is_equation_thirteen():
    r"""All s^2 = 0: the mean of Eq. (13) is 0, and the floor is applied after it."""
    X = torch.rand(8, 1, dtype=torch.double)
    Y = torch.randint(0, 9, (8, 1)).double().expand(8, 4)
    model = MeanVarianceGP(X, Y, variance_link="identity", min_noise_variance=0.5)
    assert torch.equal(model.noise.expected(X), torch.zeros(8, dtype=torch.double))
    torch.testing.assert_close(model.predicted_noise(X), torch.full_like(X, 0.5))
    # With the log link it is known to lie below the floor, which is the resolution then.
    model = MeanVarianceGP(X, Y, variance_link="log", min_noise_variance=0.5)
    assert (model.noise.expected(X) < 0.5).all()
    torch.testing.assert_close(model.predicted_noise(X), torch.full_like(X, 0.5))


@pytest.mark.filterwarnings("ignore:The noise of 10 of 10 means of readings is raised")
def test_no_spread_anywhere_is_a_noise_below_the_resolution():
    X, _ = repeats()
    Y = (5 * X).sin().sum(dim=-1, keepdim=True).expand(10, 4)
    with pytest.warns(InputDataWarning, match="Expected repeats that differ. Got equal repeats"):
        model = MeanVarianceGP(X, Y)
    assert (model.predicted_noise(X) < 1e-14).all()
    torch.testing.assert_close(model.posterior(X).mean, Y[:, :1], atol=1e-3, rtol=0)
    Y = torch.stack([Y, Y + 0.1 * torch.randn(10, 4, dtype=torch.double)])
    with pytest.warns(InputDataWarning, match="in every row in replicate 0: the noise"):
        batch = MeanVarianceGP(X.expand(2, 10, 2), Y)
    alone = MeanVarianceGP(X, Y[1])
    torch.testing.assert_close(
        batch.predicted_noise(X.expand(2, 10, 2))[1], alone.predicted_noise(X)
    )


@pytest.mark.parametrize("k", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (3, 5))])
@pytest.mark.parametrize("floor", [None, 1e-12])
@pytest.mark.slow
def test_rounded_instruments_are_calibrated(k, floor):
    r"""Readings to one decimal of a noise of 0.1, whose rows without spread are censored."""
    torch.manual_seed(0)
    X = torch.rand(40, 30, 1, dtype=torch.double)
    Y = ((6 * X).sin() + 0.1 * torch.randn(40, 30, k, dtype=torch.double)).mul(10).round() / 10
    without = (Y.amax(dim=-1) == Y.amin(dim=-1)).double().mean()
    assert without > (0.2 if k == 2 else 0.002)
    model = fitted(MeanVarianceGP(X, Y, min_noise_variance=floor))
    grid = torch.linspace(0, 1, 50, dtype=torch.double).reshape(1, 50, 1).expand(40, 50, 1)
    truth = 0.1**2 + 0.1**2 / 12  # with the variance of the rounding
    ratio = model.predicted_noise(grid).median().item() / truth
    assert 0.7 < ratio < (1.8 if k == 2 else 1.4)  # as without rounding: 1.4 and 1.2
    lower, upper = model.noise_confidence_bounds(grid, 1.96**2)
    assert ((lower < truth) & (truth < upper)).double().mean() > 0.9


def test_equal_repeats_do_not_depend_on_their_rounding():
    r"""[0.1, 0.1, 0.1] has a sample variance of 1e-33 where its mean is rounded."""
    torch.manual_seed(0)
    X = torch.rand(20, 1, dtype=torch.double)
    Y = (3 * X).sin() + 0.1 * torch.randn(20, 3, dtype=torch.double)
    predicted = []
    for value in (0.1, 0.7, 0.5):
        Y[4] = value
        predicted.append(MeanVarianceGP(X, Y, keep_copies=True).predicted_noise(X))
        assert ((predicted[-1] > 1e-4) & (predicted[-1] < 1.0)).all()
    torch.testing.assert_close(predicted[1], predicted[0])
    torch.testing.assert_close(predicted[2], predicted[0])


@pytest.mark.parametrize(
    ("k", "most", "most_upper"), [(2, 1.7, 7.0), (3, 1.5, 4.5), (10, 1.2, 2.2)]
)
@pytest.mark.slow
def test_few_repeats_do_not_inflate_a_constant_noise(k, most, most_upper):
    r"""The prior variance of log rho^2 leaves out the known noise of log s^2."""
    torch.manual_seed(0)
    X, x = (torch.rand(40, n, 2, dtype=torch.double) for n in (15, 100))
    noise = 0.1 * torch.randn(40, 15, k, dtype=torch.double)
    model = fitted(MeanVarianceGP(X, (6 * X.sum(-1, keepdim=True)).sin() + noise))
    assert 0.7 < model.predicted_noise(x).median().item() / 0.01 < most
    assert model.noise_confidence_bounds(x, 4.0)[1].median().item() / 0.01 < most_upper


@pytest.mark.parametrize("link", ["log", "identity"])
def test_sample_variances_of_one_repeat_or_without_spread_can_be_conditioned_on(link):
    X, Y = repeats()
    model = MeanVarianceGP(
        X,
        Y,
        variance_link=link,
        min_noise_variance=1e-3,
        sample_variance_noise=None if link == "log" else "pointwise",
    )
    new_X, new_Y = torch.rand(2, 2, dtype=torch.double), torch.rand(2, 1, dtype=torch.double)
    one = model.condition_on_observations(new_X, new_Y, num_repeats=1, variances=torch.ones(2, 1))
    for before, after in zip(
        model.noise_confidence_bounds(X, 4.0), one.noise_confidence_bounds(X, 4.0), strict=True
    ):
        torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-7)
    none = model.condition_on_observations(
        new_X, new_Y, num_repeats=5, variances=torch.zeros(2, 1, dtype=torch.double)
    )
    assert (none.predicted_noise(new_X) < model.predicted_noise(new_X)).all()


def test_a_row_without_spread_leaves_the_one_beside_it_alone():
    model, new_X, new_Y = small_model(), points(2), torch.rand(2, 1, dtype=torch.double)
    variances = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    both = model.condition_on_observations(new_X, new_Y, num_repeats=5, variances=variances)
    one_by_one = model
    for row in zip(new_X.split(1), new_Y.split(1), variances.split(1), strict=True):
        one_by_one = one_by_one.condition_on_observations(*row[:2], num_repeats=5, variances=row[2])
    torch.testing.assert_close(both.predicted_noise(new_X), one_by_one.predicted_noise(new_X))


def test_variances_of_repeats_are_numbers_of_several_repeats():
    new_X, new_Y = points(2), torch.rand(2, 1, dtype=torch.double)
    for wrong in (-1.0, torch.nan, torch.inf):
        variances = torch.tensor([[1.0], [wrong]], dtype=torch.double)
        with pytest.raises(InputDataError, match=r"finite `variances` >= 0\. Got .* at \(1, 0\)"):
            small_model().condition_on_observations(
                new_X, new_Y, num_repeats=5, variances=variances
            )
    one_level = small_model(variance_link="identity", min_noise_variance=1e-3)
    with pytest.raises(UnsupportedError, match=r"two repeats in every row if one .* Got 1\."):
        one_level.condition_on_observations(
            new_X, new_Y, num_repeats=1, variances=torch.ones(2, 1, dtype=torch.double)
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
        with pytest.raises(UnsupportedError, match="no `variances` if noise levels came"):
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
