r"""Expected risks and Stein's identity, against a million samples."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_risk.acquisition.expected_risk import ExpectedRisk, expected_risk, moments_of_risk
from botorch_risk.matrices import safe_root
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)

N_W = 5
MEASURES = [
    Expectation(),
    ConditionalValueAtRisk(0.3),
    ValueAtRisk(0.3),
    WorstCase(),
    MeanVariance(0.8),
    pytest.param(TotalVariationBall(0.2), marks=pytest.mark.slow),
    ShareAbove(0.2),
]


def normal() -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(5)
    mean = torch.randn(N_W, generator=generator, dtype=torch.double)
    factor = torch.randn(N_W, 3, generator=generator, dtype=torch.double)
    covariance = factor @ factor.T + 0.05 * torch.eye(N_W, dtype=torch.double)
    weights = torch.tensor([0.1, 0.25, 0.3, 0.15, 0.2], dtype=torch.double)
    return mean, covariance, weights


@cache
def million_samples() -> Tensor:
    mean, covariance, _ = normal()
    generator = torch.Generator().manual_seed(6)
    draws = torch.randn(10**6, N_W, generator=generator, dtype=torch.double)
    samples: Tensor = mean + draws @ safe_root(covariance, covariance.trace()).T
    return samples


@cache
def risks_of_samples(measure: RiskMeasure) -> Tensor:
    return measure(million_samples(), normal()[2])


@cache
def of_normal(measure: RiskMeasure, num_samples: int) -> ExpectedRisk:
    mean, covariance, weights = normal()
    variance = covariance.diagonal()
    return expected_risk(measure, mean, variance, weights, lambda: covariance, num_samples)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
@pytest.mark.slow
def test_a_slope_is_what_a_reading_moves_the_risk_by(measure: RiskMeasure) -> None:
    r"""`q' C e_w / sd(y_w)` against differences of the risk of a million samples that y_w moves."""
    _, covariance, weights = normal()
    found = of_normal(measure, num_samples=200_000)
    samples = million_samples()
    for w in (0, 3):
        direction = covariance[w] / (covariance[w, w] + 0.1).sqrt()
        slope = found.gradient @ direction
        step = 1e-3 * direction
        moved = measure(samples + step, weights) - measure(samples - step, weights)
        moved = moved / 2e-3
        error = float(moved.std()) * (1e-3 + 200_000**-0.5)  # of both means
        assert abs(float(moved.mean() - slope)) <= 5 * error + 1e-9
    risks = risks_of_samples(measure)
    error = float(risks.std()) * (1e-3 + 200_000**-0.5)
    assert abs(float(risks.mean() - found.value)) <= 5 * error


@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
def test_it_covaries_with_readings_as_stein_says(measure: RiskMeasure) -> None:
    mean, covariance, _ = normal()
    found = of_normal(measure, num_samples=200_000)
    samples = million_samples()
    risks = risks_of_samples(measure)
    products = (risks - risks.mean()).unsqueeze(-1) * (samples - mean)
    error = products.std(dim=0) * 3e-3
    assert ((products.mean(dim=0) - covariance @ found.gradient).abs() <= 5 * error).all()


def test_a_measure_with_a_closed_form_takes_no_samples() -> None:
    mean, covariance, weights = normal()

    def never() -> Tensor:
        raise AssertionError("no covariance is needed")

    variance = covariance.diagonal()
    found = expected_risk(Expectation(), mean, variance, weights, never)
    assert torch.equal(found.gradient, weights)
    torch.testing.assert_close(found.value, weights @ mean)


def test_a_quadratic_measure_is_exact_with_two_samples() -> None:
    r"""Antithetic samples average a gradient that is linear without an error."""
    few = of_normal(MeanVariance(0.8), num_samples=2)
    many = of_normal(MeanVariance(0.8), num_samples=1000)
    torch.testing.assert_close(few.gradient, many.gradient)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
@pytest.mark.slow
def test_the_moments_of_a_risk_are_those_of_a_million_samples(measure: RiskMeasure) -> None:
    mean, covariance, weights = normal()
    value, variance = moments_of_risk(measure, mean, covariance, weights)
    risks = risks_of_samples(measure)
    spread = float(risks.std())
    assert abs(float(value - risks.mean())) < 0.05 * spread
    # A share is no linear measure: its variance is what is linear in the outcomes.
    relative = float(variance.sqrt()) / spread
    assert 0.8 < relative < 1.0 if isinstance(measure, ShareAbove) else abs(relative - 1) < 0.1


@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
def test_the_moments_of_a_risk_are_differentiable(measure: RiskMeasure) -> None:
    mean, covariance, weights = normal()
    root = torch.linalg.cholesky(covariance).requires_grad_()

    def moments(mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
        return moments_of_risk(measure, mean, root @ root.T, weights)

    assert torch.autograd.gradcheck(moments, (mean.requires_grad_(), root))
