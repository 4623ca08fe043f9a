r"""Constraints that hold under a risk."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import NoiseQuantileBound, NoisyChanceConstraint, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk, MeanVariance, ValueAtRisk
from tests.contracts import RepeatedData, mean_variance_gp
from tests.models.risks import DISTRIBUTION, ENVIRONMENT, decisions, two_outcomes, two_outputs


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


def test_bounds_of_a_measure_that_is_not_monotone_are_valid() -> None:
    constraint = RiskConstraint(ENVIRONMENT, MeanVariance(2.0), 0.2, 0)
    bound, X = constraint.bound(two_outcomes(), beta=4.0), decisions(20)
    assert (bound.lower(X) <= bound.mean(X)).all()
    assert (bound.mean(X) <= bound.upper(X)).all()


def test_noise_that_was_learnt() -> None:
    constraint = NoisyChanceConstraint(1.0, outcome=0, delta=0.05, noise_beta=2.0)
    bound = constraint.bound(mean_variance_gp(RepeatedData.make()), beta=4.0)
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
    with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)"):
        NoisyChanceConstraint(0.0, 0, 1.5)
    with pytest.raises(ValueError, match="finite `threshold`"):
        NoisyChanceConstraint(float("inf"), 0, 0.1)
    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\)"):
        RiskConstraint.chance(DiscreteEnvironment(torch.rand(3, 1)), 0.0, 0, delta=0.0)
