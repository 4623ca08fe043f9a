r"""What the risk-averse bounds reduce to, and what they refuse."""

import math

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP

from botorch_risk.acquisition import (
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.mean_variance import NoisePosteriorStandardDeviation
from botorch_risk.models import MeanVarianceGP
from tests.contracts import RepeatedData, correlation_of, mean_variance_gp, repeated_data

MINIMISE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
BOTH_BOUNDS = (RiskAverseUpperConfidenceBound, RiskAverseLowerConfidenceBound)


def draw_points(n: int = 7) -> torch.Tensor:
    return torch.rand(n, 1, 2, dtype=torch.float64)


@pytest.fixture
def data() -> RepeatedData:
    return repeated_data()


@pytest.fixture(params=["log", "identity"])
def model(request: pytest.FixtureRequest, data: RepeatedData) -> MeanVarianceGP:
    return mean_variance_gp(data, variance_link=request.param, min_noise_variance=1e-3)


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_without_risk_aversion_it_is_botorchs_ucb(model: MeanVarianceGP, beta: float) -> None:
    X = draw_points()
    ours = RiskAverseUpperConfidenceBound(model, beta=beta, risk_aversion=0.0)
    torch.testing.assert_close(ours(X), UpperConfidenceBound(model.mean_model, beta=beta)(X))


def test_many_repeats_leave_only_the_known_noise() -> None:
    r"""k -> infinity: the noise is known and the means are exact."""
    X = torch.rand(12, 1, dtype=torch.float64)
    f, rho2 = (6 * X).sin(), 0.1 + X.square()
    model = MeanVarianceGP.from_summary(X, f, rho2, torch.full_like(X, 1e5))
    known = MeanVarianceGP.from_summary(
        X, f, rho2, torch.full_like(X, 1e5), known_noise=lambda x: 0.1 + x.square()
    )
    for process in (model.noise_model, model.mean_model, known.mean_model):
        correlation_of(process).lengthscale = 0.4
    model.refresh_noise()
    acqf, limit = (
        RiskAverseUpperConfidenceBound(m, beta=1.0, risk_aversion=2.0) for m in (model, known)
    )
    torch.testing.assert_close(acqf.evaluate(X), limit.evaluate(X), rtol=2e-2, atol=2e-2)
    expected = (f - 2 * rho2).squeeze(-1)
    torch.testing.assert_close(acqf.evaluate(X), expected, rtol=2e-2, atol=2e-2)


def test_known_noise_is_equation_nine(data: RepeatedData) -> None:
    def known_noise(X: torch.Tensor) -> torch.Tensor:
        return (0.2 + X[..., :1]).square()

    model = mean_variance_gp(data, known_noise=known_noise)
    X = draw_points()
    expected = UpperConfidenceBound(model.mean_model, beta=4.0)(X) - 0.5 * known_noise(X).flatten()
    for noise_beta in (0.0, 9.0):
        acqf = RiskAverseUpperConfidenceBound(model, noise_beta=noise_beta, risk_aversion=0.5)
        torch.testing.assert_close(acqf(X), expected)
    with pytest.raises(UnsupportedError, match="learns its noise"):
        NoisePosteriorStandardDeviation(model)


def test_zero_width_is_the_posterior_mean_for_the_identity_link(data: RepeatedData) -> None:
    model = mean_variance_gp(data, variance_link="identity", min_noise_variance=1e-9)
    X = draw_points().squeeze(-2)
    acqf = RiskAverseUpperConfidenceBound(model, beta=0.0, noise_beta=0.0, risk_aversion=0.5)
    mean = model.posterior(X).mean - 0.5 * model.noise_posterior(X).mean
    torch.testing.assert_close(acqf.evaluate(X), mean.squeeze(-1))
    torch.testing.assert_close(acqf.upper(X), acqf.lower(X))


def test_bounds_are_ordered_and_widen(model: MeanVarianceGP) -> None:
    X = draw_points().squeeze(-2)
    narrow = RiskAverseUpperConfidenceBound(model, beta=1.0, noise_beta=1.0)
    wide = RiskAverseUpperConfidenceBound(model, beta=4.0, noise_beta=4.0)
    assert (wide.lower(X) < narrow.lower(X)).all()
    assert (narrow.lower(X) < narrow.upper(X)).all()
    assert (narrow.upper(X) < wide.upper(X)).all()
    twin = RiskAverseLowerConfidenceBound(model, beta=4.0, noise_beta=4.0)
    assert torch.equal(twin.evaluate(X), wide.lower(X))


@pytest.mark.parametrize("bound", BOTH_BOUNDS)
def test_minimisation_keeps_the_sign_of_the_penalty(bound: type, model: MeanVarianceGP) -> None:
    X = draw_points()
    value = bound(model, beta=0.0, risk_aversion=2.0, posterior_transform=MINIMISE)(X)
    neutral = bound(model, beta=0.0, risk_aversion=0.0, posterior_transform=MINIMISE)(X)
    torch.testing.assert_close(neutral, -model.posterior(X).mean.flatten())
    risky = bound(model, beta=0.0, risk_aversion=2.0)(X)
    averse = bound(model, beta=0.0, risk_aversion=0.0)(X)
    torch.testing.assert_close(value - neutral, risky - averse)


def test_trusting_the_noise_takes_its_posterior_mean(model: MeanVarianceGP) -> None:
    r"""A width of 0 is the median with the log link, which is lower than the mean."""
    X = torch.rand(6, 2, dtype=torch.float64)
    trusting = RiskAverseUpperConfidenceBound(model, noise_beta=None, risk_aversion=3.0)
    neutral = RiskAverseUpperConfidenceBound(model, risk_aversion=0.0)
    penalty = (neutral.evaluate(X) - trusting.evaluate(X)) / 3
    torch.testing.assert_close(penalty, model.predicted_noise(X).squeeze(-1))
    torch.testing.assert_close(trusting.upper(X) - trusting.lower(X), 4 * f_deviation(model, X))


def f_deviation(model: MeanVarianceGP, X: torch.Tensor) -> torch.Tensor:
    return model.mean_marginals(X).variance.sqrt()


@pytest.mark.parametrize("bound", [*BOTH_BOUNDS, qRiskAverseUpperConfidenceBound])
@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_one_model_of_a_list_is_selected(bound: type, weight: float, data: RepeatedData) -> None:
    model = mean_variance_gp(data)
    constraint = SingleTaskGP(data.X, data.X[:, :1])
    X = draw_points()
    of_one = ScalarizedPosteriorTransform(torch.tensor([weight], dtype=torch.float64), offset=0.5)
    for models, weights in (
        ([model, constraint], [weight, 0.0]),
        ([constraint, model], [0, weight]),
    ):
        of_list = ScalarizedPosteriorTransform(torch.tensor(weights).double(), offset=0.5)
        value = bound(ModelListGP(*models), posterior_transform=of_list)(X)
        torch.testing.assert_close(value, bound(model, posterior_transform=of_one)(X))
    both = ScalarizedPosteriorTransform(torch.tensor([1.0, 1.0], dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="one weight that is not 0"):
        bound(ModelListGP(model, constraint), posterior_transform=both)
    with pytest.raises(UnsupportedError, match="that selects one output of a list"):
        bound(ModelListGP(model, constraint))
    wide = SingleTaskGP(data.X, data.X)
    first = ScalarizedPosteriorTransform(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="over models of one output each"):
        bound(ModelListGP(model, wide), posterior_transform=first)
    other = ScalarizedPosteriorTransform(torch.tensor([0.0, 1.0], dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="Got SingleTaskGP"):
        bound(ModelListGP(model, constraint), posterior_transform=other)


def test_replicates_may_have_weights_of_their_own() -> None:
    data = repeated_data((3,))
    model = mean_variance_gp(data)
    X = torch.rand(3, 4, 2, dtype=torch.float64)
    weights = torch.tensor([0.0, 1.0, 4.0])
    together = RiskAverseUpperConfidenceBound(model, beta=weights, risk_aversion=weights)(
        X.movedim(1, 0).unsqueeze(-2)
    )
    for i, weight in enumerate(weights.tolist()):
        one = RiskAverseUpperConfidenceBound(model, beta=weight, risk_aversion=weight)
        torch.testing.assert_close(one.evaluate(X)[i], together[:, i])


def test_observed_values_of_every_replicate() -> None:
    data = repeated_data((3,))
    model = mean_variance_gp(data)
    X = data.X[..., [4, 0, 1], :]
    together = RiskAverseUpperConfidenceBound(model, beta=1.0, risk_aversion=2.0).observed(X)
    mean, variance = data.Y.mean(dim=-1), data.Y.var(dim=-1)
    torch.testing.assert_close(together, (mean - 2.0 * variance)[:, [4, 0, 1]])


def test_a_single_repeat_counts_where_there_is_no_aversion() -> None:
    data = repeated_data((2,))
    data.Y[:, 3, 1:] = torch.nan
    model = mean_variance_gp(data)
    aversion = torch.tensor([0.0, 0.5], dtype=torch.float64)
    found = RiskAverseUpperConfidenceBound(model, risk_aversion=aversion).observed(data.X)
    mean, variance = data.Y.nanmean(dim=-1), data.Y.var(dim=-1)
    torch.testing.assert_close(found[0], mean[0])
    assert found[1, 3] == -torch.inf
    kept = [0, 1, 2, *range(4, 9)]
    torch.testing.assert_close(found[1, kept], (mean - 0.5 * variance)[1, kept])


def test_observed_values_are_of_points_of_the_model_alone(data: RepeatedData) -> None:
    acqf = RiskAverseUpperConfidenceBound(mean_variance_gp(data))
    with pytest.raises(
        InputDataError, match=r"training points of the model, .* Got 1 other points"
    ):
        acqf.observed(torch.cat([data.X[:2], data.X[:1] + 0.1]))


@pytest.mark.parametrize("bound", [*BOTH_BOUNDS, qRiskAverseUpperConfidenceBound])
@pytest.mark.parametrize("name", ["beta", "noise_beta", "risk_aversion"])
@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_weights(bound: type, name: str, bad: float, data: RepeatedData) -> None:
    with pytest.raises(ValueError, match=rf"Expected `{name}` to be finite and >= 0\. Got {bad}"):
        bound(mean_variance_gp(data), **{name: bad})


@pytest.mark.parametrize("bound", [*BOTH_BOUNDS, qRiskAverseUpperConfidenceBound])
def test_other_models_are_refused(bound: type, data: RepeatedData) -> None:
    model = SingleTaskGP(data.X, data.Y.mean(dim=-1, keepdim=True))
    with pytest.raises(UnsupportedError, match=r"Expected a MeanVarianceGP.* Got SingleTaskGP"):
        bound(model)


def test_a_batch_takes_no_other_transform_than_a_weighted_sum() -> None:
    model = mean_variance_gp(repeated_data())
    message = r"`ScalarizedPosteriorTransform` or None\. Got ExpectationPosteriorTransform"
    with pytest.raises(UnsupportedError, match=message):
        qRiskAverseUpperConfidenceBound(
            model, posterior_transform=ExpectationPosteriorTransform(n_w=2)
        )


def test_pending_points_of_every_replicate() -> None:
    data = repeated_data((2,))
    model = mean_variance_gp(data)
    pending = torch.rand(2, 3, 2, dtype=torch.float64)
    acqf = RiskAverseUpperConfidenceBound(model, X_pending=pending)
    free = RiskAverseUpperConfidenceBound(model)
    assert (acqf.evaluate(pending) < free.evaluate(pending)).all()
    for i in range(2):
        one = mean_variance_gp(RepeatedData(data.X[i], data.Y[i]))
        for part in ("mean_model", "noise_model"):
            theirs, own = getattr(model, part), getattr(one, part)
            correlation_of(own).lengthscale = correlation_of(theirs).lengthscale[i]
        one.mean_model.covar_module.outputscale = model.mean_model.covar_module.outputscale[i]
        one.refresh_noise()
        alone = RiskAverseUpperConfidenceBound(one, X_pending=pending[i])
        torch.testing.assert_close(acqf.evaluate(pending)[i], alone.evaluate(pending[i]))


def test_bounds_hold_for_the_truth() -> None:
    r"""At a generous width the interval contains mean minus variance at nearly all points."""
    generator = torch.Generator().manual_seed(1)
    X = torch.linspace(0, 1, 25, dtype=torch.float64).unsqueeze(-1)
    f, rho = (5 * X).sin(), 0.2 + 0.5 * X
    Y = f + rho * torch.randn(25, 10, generator=generator, dtype=torch.float64)
    model = MeanVarianceGP(X, Y)
    for process in (model.noise_model, model.mean_model):
        correlation_of(process).lengthscale = 0.4
    model.refresh_noise()
    acqf = RiskAverseUpperConfidenceBound(model, beta=9.0, noise_beta=9.0, risk_aversion=1.0)
    truth = (f - rho.square()).squeeze(-1)
    inside = (acqf.lower(X) <= truth) & (truth <= acqf.upper(X))
    assert inside.double().mean() > 0.95
