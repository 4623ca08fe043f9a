r"""What sample variances tell the noise process: floors, no spread, few repeats."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning

from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from tests.models.examples import repeats


def fitted(model):
    model.fit_processes(lambda process: bool(fit_exact_gp(process)))
    return model.eval()


@pytest.mark.parametrize("link", ["log", "identity"])
@pytest.mark.parametrize("k", [2, 3])
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
    with pytest.warns(InputDataWarning, match="Expected repeats that differ. Got equal ones"):
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


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("floor", [None, 1e-12])
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
        predicted.append(MeanVarianceGP(X, Y).predicted_noise(X))
        assert ((predicted[-1] > 1e-4) & (predicted[-1] < 1.0)).all()
    torch.testing.assert_close(predicted[1], predicted[0])
    torch.testing.assert_close(predicted[2], predicted[0])


@pytest.mark.parametrize(
    ("k", "most", "most_upper"), [(2, 1.7, 7.0), (3, 1.5, 4.5), (10, 1.2, 2.2)]
)
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
