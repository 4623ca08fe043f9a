r"""Constraints under a risk, on outcomes and on noise."""

from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from scipy.stats import norm

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import NoisyChanceConstraint, RiskConstraint
from botorch_risk.constraints.noise_quantile import (
    NoiseQuantileBound,
    NoiseQuantileModel,
    normal_quantile,
)
from botorch_risk.environments import DiscreteEnvironment, ObservedContexts
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    MeanVariance,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
)
from tests.contracts import RepeatedData, correlation_of, mean_variance_gp, repeated_data
from tests.models.risks import DISTRIBUTION, ENVIRONMENT, decisions, gp, two_outcomes, two_outputs


@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("delta", [0.1, 0.3, 0.4, 0.55])
def test_a_chance_constraint_counts_probabilities(delta: float, at_most: bool) -> None:
    r"""Ties included: 0.1, 0.3 and 0.4 are sums of the weights."""
    constraint = RiskConstraint.chance(ENVIRONMENT, 0.0, 0, delta, at_most)
    values = torch.randn(500, 4, dtype=torch.float64)
    inside = values <= 0 if at_most else values >= 0
    holds = (inside * DISTRIBUTION).sum(dim=-1) >= 1 - delta - 1e-12
    larger_is_better = -values if at_most else values
    risk = constraint.risk_measure(larger_is_better, DISTRIBUTION)
    assert torch.equal(risk >= constraint.limit, holds)
    assert constraint.risk_measure == ValueAtRisk(delta, strict=True)


@pytest.mark.parametrize("kind", ["list", "outputs"])
@pytest.mark.parametrize("at_most", [False, True])
def test_bounds_are_those_of_the_outcome(kind: str, at_most: bool) -> None:
    model = two_outcomes() if kind == "list" else two_outputs()
    constraint = RiskConstraint(ENVIRONMENT, ConditionalValueAtRisk(0.4), 0.2, 1, at_most)
    bound = constraint.bound(model, beta=4.0)
    assert isinstance(bound, RiskUpperConfidenceBound)
    X = decisions(5)
    posterior = model.posterior(ENVIRONMENT.expand(X)[0].flatten(-3, -2).unsqueeze(-2))
    mean, sigma = (part[..., 0, 1].reshape(5, 4) for part in (posterior.mean, posterior.variance))
    sigma = sigma.sqrt()
    sign = -1 if at_most else 1
    measure = ConditionalValueAtRisk(0.4)
    torch.testing.assert_close(bound.upper(X), measure(sign * mean + 2 * sigma, DISTRIBUTION))
    torch.testing.assert_close(bound.lower(X), measure(sign * mean - 2 * sigma, DISTRIBUTION))
    assert constraint.limit == sign * 0.2


def test_a_share_is_at_least_a_threshold_and_never_at_most() -> None:
    measure, X = ShareAbove(0.3, under=TotalVariationBall(0.2)), decisions(20)
    bound = RiskConstraint(ENVIRONMENT, measure, 0.4, 0).bound(two_outcomes(), beta=4.0)
    outcomes = two_outcomes().models[0].posterior(ENVIRONMENT.expand(X)[0]).mean.squeeze(-1)
    shares = [float(DISTRIBUTION[row > 0.3].sum()) for row in outcomes]
    # A tenth of the probability moves below, where there is such a value.
    worst = [max(0.0, share - 0.1) if share < 1 - 1e-9 else 1.0 for share in shares]
    expected = torch.tensor(worst).double()
    torch.testing.assert_close(bound.mean(X), expected)
    for environment in (ENVIRONMENT, ObservedContexts(torch.tensor([[0.0], [1.0]]))):
        with pytest.raises(UnsupportedError, match=r"`at_most`. Got ShareAbove.*chance"):
            RiskConstraint(environment, measure, 0.1, 0, at_most=True)
    # P(y > 0.3) <= 0.4, as the message says.
    rare = RiskConstraint.chance(ENVIRONMENT, 0.3, 0, 0.4)
    holds = rare.bound(two_outcomes(), beta=0.0).mean(X) >= rare.limit
    assert holds.tolist() == [share <= 0.4 + 1e-12 for share in shares]
    assert 0 < holds.sum() < 20


def test_bounds_of_a_measure_that_is_not_monotone_are_valid() -> None:
    constraint = RiskConstraint(ENVIRONMENT, MeanVariance(2.0), 0.2, 0)
    bound, X = constraint.bound(two_outcomes(), beta=4.0), decisions(20)
    assert (bound.lower(X) <= bound.mean(X)).all()
    assert (bound.mean(X) <= bound.upper(X)).all()


def test_noise_that_was_learnt() -> None:
    constraint = NoisyChanceConstraint(1.0, outcome=0, delta=0.05, noise_beta=2.0)
    bound = constraint.bound(mean_variance_gp(repeated_data()), beta=4.0)
    assert isinstance(bound, NoiseQuantileBound)
    assert bound.minimized
    assert bound.noise_beta == 2.0
    assert constraint.limit == -1.0
    assert NoisyChanceConstraint(1.0, 0, 0.05, at_most=False).limit == 1.0


def test_bad_constraints_are_refused() -> None:
    measure: Any = "VaR"
    with pytest.raises(ValueError, match="finite `threshold`"):
        RiskConstraint(ENVIRONMENT, ConditionalValueAtRisk(0.4), float("nan"), 0)
    with pytest.raises(ValueError, match=r"`outcome` to be at least 0\. Got -1"):
        RiskConstraint(ENVIRONMENT, ConditionalValueAtRisk(0.4), 0.0, -1)
    with pytest.raises(TypeError, match="Expected a `RiskMeasure`"):
        RiskConstraint(ENVIRONMENT, measure, 0.0, 0)
    learnt = ObservedContexts(torch.tensor([[0.0], [1.0]]), DiscreteEnvironment)
    with pytest.raises(TypeError, match=r"Expected a `RiskMeasure`.* Got 'VaR'"):
        RiskConstraint(learnt, measure, 0.0, 0)
    with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)"):
        NoisyChanceConstraint(0.0, 0, 1.5)
    with pytest.raises(ValueError, match="finite `threshold`"):
        NoisyChanceConstraint(float("inf"), 0, 0.1)
    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\)"):
        RiskConstraint.chance(DiscreteEnvironment(torch.rand(3, 1)), 0.0, 0, delta=0.0)


@pytest.mark.parametrize("minimized", [False, True])
def test_an_evaluation_exceeds_the_quantile_as_often_as_promised(minimized: bool) -> None:
    model = mean_variance_gp(repeated_data())
    X = torch.rand(5, 2, dtype=torch.float64)
    quantile = NoiseQuantileModel(model, 0.1, minimized).posterior(X).mean.squeeze(-1)
    f, noise = model.posterior(X).mean.squeeze(-1), model.predicted_noise(X).squeeze(-1)
    sign = -1 if minimized else 1
    standard = ((quantile - sign * f) / noise.sqrt()).detach()
    torch.testing.assert_close(
        torch.from_numpy(norm.sf(standard.numpy())), torch.full((5,), 0.9).double()
    )


def test_the_uncertainty_is_that_of_f() -> None:
    model = mean_variance_gp(repeated_data())
    X = torch.rand(4, 3, 2, dtype=torch.float64)
    posterior = NoiseQuantileModel(model, 0.1).posterior(X)
    torch.testing.assert_close(posterior.variance, model.posterior(X).variance)
    assert posterior.rsample(torch.Size([5])).shape == (5, 4, 3, 1)
    transform = ScalarizedPosteriorTransform(torch.tensor([2.0], dtype=torch.float64))
    doubled = NoiseQuantileModel(model, 0.1).posterior(X, posterior_transform=transform)
    torch.testing.assert_close(doubled.mean, 2 * posterior.mean)


def test_bad_input() -> None:
    model = NoiseQuantileModel(mean_variance_gp(repeated_data((2,))), 0.5)
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


X = torch.rand(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("minimized", [False, True])
@pytest.mark.parametrize("delta", [0.05, 0.9])
def test_bounds_are_in_order_and_the_mean_is_that_of_the_model(
    minimized: bool, delta: float
) -> None:
    model = mean_variance_gp(repeated_data())
    bound = NoiseQuantileBound(model, delta, 4.0, noise_beta=2.0, minimized=minimized)
    mean = NoiseQuantileModel(model, delta, minimized).posterior(X).mean.squeeze(-1)
    torch.testing.assert_close(bound.mean(X), mean, rtol=1e-6, atol=1e-6)
    without = NoiseQuantileBound(model, delta, 4.0, minimized=minimized)
    known = NoiseQuantileBound(model, delta, 0.0, minimized=minimized)
    torch.testing.assert_close(known.upper(X), known.lower(X))
    assert (bound.lower(X) < bound.upper(X)).all()
    assert (without.lower(X) < without.mean(X)).all()


@pytest.mark.parametrize("minimized", [False, True])
@pytest.mark.parametrize("delta", [0.05, 0.3, 0.9])
def test_the_lower_bound_expects_the_noise_that_hurts(delta: float, minimized: bool) -> None:
    r"""Much of it in the lower tail, little in the upper one; and the other way for the upper."""
    model = mean_variance_gp(repeated_data())
    bound = NoiseQuantileBound(model, delta, 4.0, noise_beta=2.0, minimized=minimized)
    mean, variance = model.mean_marginals(X)
    noises = model.noise_confidence_bounds(X, torch.tensor(2.0))
    for found, side, best in ((bound.upper(X), 1, torch.amax), (bound.lower(X), -1, torch.amin)):
        f = (-mean if minimized else mean) + side * 2 * variance.sqrt()
        each = torch.stack([f + norm.ppf(delta) * noise.sqrt() for noise in noises])
        torch.testing.assert_close(found, best(each, dim=0))


@pytest.mark.parametrize("minimized", [False, True])
def test_half_of_the_evaluations_are_above_f_whatever_the_noise(minimized: bool) -> None:
    model = mean_variance_gp(repeated_data())
    bound = NoiseQuantileBound(model, 0.5, 4.0, noise_beta=2.0, minimized=minimized)
    mean, variance = model.mean_marginals(X)
    sign = -1 if minimized else 1
    torch.testing.assert_close(bound.upper(X), sign * mean + 2 * variance.sqrt())
    torch.testing.assert_close(bound.lower(X), sign * mean - 2 * variance.sqrt())


@pytest.mark.parametrize("noise_beta", [None, 2.0])
def test_a_batch_equals_its_replicates_alone(noise_beta: float | None) -> None:
    data = repeated_data((3,))
    together = NoiseQuantileBound(mean_variance_gp(data), 0.1, 4.0, noise_beta=noise_beta)
    points = torch.rand(3, 5, 2, dtype=torch.float64)
    for r in range(3):
        model = mean_variance_gp(RepeatedData(data.X[r], data.Y[r]))
        correlation_of(model.mean_model).lengthscale = 0.4 + r / 10  # as in the batch
        model.covar_module.outputscale = 1.0 + r / 10
        correlation_of(model.noise_model).lengthscale = 0.7 + r / 10
        model.refresh_noise()
        alone = NoiseQuantileBound(model, 0.1, 4.0, noise_beta=noise_beta)
        for side in ("lower", "mean", "upper"):
            found, expected = getattr(together, side)(points), getattr(alone, side)(points[r])
            assert found.shape == (3, 5)
            torch.testing.assert_close(found[r], expected)


def test_bad_arguments_are_refused() -> None:
    model = mean_variance_gp(repeated_data())
    with pytest.raises(UnsupportedError, match="Expected a MeanVarianceGP"):
        NoiseQuantileBound(gp(), 0.1)
    with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)"):
        NoiseQuantileBound(model, 0.0)
    with pytest.raises(ValueError, match="`beta` to be finite and >= 0"):
        NoiseQuantileBound(model, 0.1, beta=-1.0)
    with pytest.raises(ValueError, match="`noise_beta` to be finite and >= 0"):
        NoiseQuantileBound(model, 0.1, noise_beta=-1.0)
