r"""How much each value of W counts before anything is known."""

from typing import Any

import pytest
import torch

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.robust import pareto_search
from botorch_risk.strategies import Box, EnvironmentSpace

WEIGHTS = torch.tensor([0.1, 0.4, 0.0, 0.3, 0.2], dtype=torch.double)
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
EXACT = [Expectation(), WorstCase(), WorstCase(over="points"), MeanVariance(0.3)]
MANY = [ValueAtRisk(0.4), ConditionalValueAtRisk(0.5), TotalVariationBall(0.5)]


def gradient(measure: RiskMeasure, weights: torch.Tensor) -> torch.Tensor:
    r"""The mean gradient over 100,000 samples of independent normal values."""
    generator = torch.Generator().manual_seed(0)
    shape = (100_000, len(weights))
    values = torch.randn(shape, generator=generator, dtype=torch.double, requires_grad=True)
    (total,) = torch.autograd.grad(measure(values, weights).mean(), values)
    return total.sum(dim=0)


@pytest.mark.parametrize("measure", EXACT, ids=repr)
def test_it_is_the_expected_gradient_for_values_that_are_alike(measure: RiskMeasure) -> None:
    found = measure.importance(WEIGHTS)
    torch.testing.assert_close(found, gradient(measure, WEIGHTS), rtol=0, atol=0.01)


@pytest.mark.parametrize("measure", MANY, ids=repr)
@pytest.mark.slow
def test_of_many_values_it_is_about_the_expected_gradient(measure: RiskMeasure) -> None:
    weights = torch.linspace(1, 3, 40, dtype=torch.double)
    weights = weights / weights.sum()
    found, expected = measure.importance(weights), gradient(measure, weights)
    torch.testing.assert_close(found.sum(), found.new_tensor(1.0))
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0)


@pytest.mark.parametrize("measure", [*EXACT[:2], TotalVariationBall(0.5)], ids=repr)
def test_shares_of_the_initial_design_follow_it(measure: Any) -> None:
    w = DiscreteEnvironment(torch.arange(5, dtype=torch.double)[:, None] / 4, WEIGHTS)
    space = EnvironmentSpace(Box(UNIT), w, initial_risk=measure)
    X = space.initial([3, 4], 30)
    shares = (X[..., 1:] == w.points[:, 0]).double().mean(dim=-2)
    off = (shares - measure.importance(WEIGHTS)).abs().amax()
    assert off <= 2 / 30  # a part of the interval at each end of a share
    assert not torch.equal(X[0, :, 1], X[1, :, 1])
    torch.testing.assert_close(space.initial([4], 30), X[1:])  # a replicate has its own stream


def test_of_several_risks_the_shares_follow_the_mean_of_their_importances() -> None:
    w = DiscreteEnvironment(torch.arange(5, dtype=torch.double)[:, None] / 4, WEIGHTS)
    measures = (EXACT[0], TotalVariationBall(0.5))
    X = EnvironmentSpace(Box(UNIT), w, initial_risk=measures).initial([3], 60)
    shares = (X[0, :, 1:] == w.points[:, 0]).double().mean(dim=-2)
    expected = torch.stack([each.importance(WEIGHTS) for each in measures]).mean(dim=0)
    assert (shares - expected).abs().amax() <= 2 / 60
    strategy = pareto_search(
        UNIT, [3], environment=w, risk_measure=measures, reference_point=[0.0, 0.0],
        w_is_chosen=True, num_initial=60,
    )  # fmt: skip
    torch.testing.assert_close(strategy.ask(), X)
