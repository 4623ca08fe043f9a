r"""Bounds of the risk under the joint posterior over W, beyond what the contract tests."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Log, Standardize
from torch import Tensor

from botorch_risk.acquisition import (
    JointRiskUpperConfidenceBound,
    RiskUpperConfidenceBound,
    select_value,
)
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.gradients import condition
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    RiskMeasure,
    TotalVariationBall,
    WorstCase,
)
from tests.waves import model_of

KNOWN = DiscreteEnvironment(
    torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.double),
    torch.tensor([0.1, 0.4, 0.3, 0.2]),
)
MEASURES = [ConditionalValueAtRisk(0.3), WorstCase(), MeanVariance(0.8), TotalVariationBall(0.2)]


def sampled(model: SingleTaskGP, measure: RiskMeasure, x: Tensor) -> Tensor:
    r"""The risks of 100,000 samples of the posterior, `100_000 x m`."""
    inputs, weights = KNOWN.expand(x)
    posterior: Any = model.posterior(inputs)
    outcomes = posterior.distribution.sample(torch.Size([100_000]))
    return measure(outcomes, weights)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
def test_it_is_the_mean_and_the_spread_of_the_risk(measure: RiskMeasure) -> None:
    model = model_of()
    acqf = JointRiskUpperConfidenceBound(model, KNOWN, measure, beta=4.0, num_samples=1024)
    x = torch.rand(5, 1, dtype=torch.double)
    risks = sampled(model, measure, x)
    with torch.no_grad():
        torch.testing.assert_close(acqf.mean(x), risks.mean(dim=0), rtol=0, atol=0.02)
        spread = (acqf.upper(x) - acqf.lower(x)) / 4
    torch.testing.assert_close(spread, risks.std(dim=0), rtol=0.05, atol=0)


@pytest.mark.parametrize(
    "measure", [Expectation(), *MEASURES], ids=lambda each: type(each).__name__
)
def test_gradients_are_those_of_differences(measure: RiskMeasure) -> None:
    acqf = JointRiskUpperConfidenceBound(model_of(), KNOWN, measure, beta=4.0)
    x = torch.tensor([[[0.33]], [[0.71]]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(acqf, x)


def test_gradients_where_perturbed_decisions_are_clipped() -> None:
    r"""Then the points of a decision do not move together."""
    unit = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    shifts = torch.tensor([[-0.3, 0.0], [0.0, 0.2], [0.2, 0.2]], dtype=torch.double)
    environment = InputPerturbation(shifts, bounds=unit)
    acqf = JointRiskUpperConfidenceBound(model_of(), environment, WorstCase(), beta=4.0)
    x = torch.tensor([[[0.13, 0.91]], [[0.71, 0.4]]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(acqf, x)


def test_a_reading_narrows_it_more_than_the_risk_of_pointwise_bounds() -> None:
    r"""What it is for: the expectation over nine values of W, of which one is read."""
    w = DiscreteEnvironment(torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1))
    model = model_of()
    for x in torch.tensor([[[0.1]], [[0.4]], [[0.8]]], dtype=torch.double):
        reading = select_value(model, w, Expectation(), x)
        read = condition(model, reading, model.posterior(reading).mean.detach())
        narrowed = []
        for kind in (JointRiskUpperConfidenceBound, RiskUpperConfidenceBound):
            with torch.no_grad():
                before, after = (kind(each, w, Expectation(), beta=4.0) for each in (model, read))
                narrowed.append(width(after, x) / width(before, x))
        assert narrowed[0] < narrowed[1] < 1


def width(bound: RiskUpperConfidenceBound, x: Tensor) -> float:
    return float(bound.upper(x) - bound.lower(x))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"num_samples.* Got .*0"):
        JointRiskUpperConfidenceBound(model_of(), KNOWN, Expectation(), 4.0, num_samples=0)
    with pytest.raises(UnsupportedError, match="Gaussian"):
        JointRiskUpperConfidenceBound(no_gaussian(), KNOWN, Expectation(), 4.0).upper(
            torch.rand(2, 1, dtype=torch.double)
        )


def no_gaussian() -> Any:
    r"""A process whose outcome was transformed by a logarithm."""
    X = torch.rand(8, 2, dtype=torch.double)
    logarithm = ChainedOutcomeTransform(log=Log(), standardize=Standardize(m=1))
    return SingleTaskGP(X, X.sum(dim=-1, keepdim=True), outcome_transform=logarithm)
