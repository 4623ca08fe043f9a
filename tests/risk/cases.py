r"""Every measure of risk, one line each; `test_contract.py` tests what they share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch_risk_testing.risk_measures import RiskMeasureCase
from torch import Tensor

from botorch_risk.risk import (
    ChiSquareBall,
    ConditionalValueAtRisk,
    Expectation,
    KullbackLeiblerBall,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    MinimaxApproximation,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WassersteinBall,
    WassersteinRegularization,
    WorstCase,
)
from tests import oracles
from tests.risk import ball_oracles


def risk_kernel(v: Tensor, w: Tensor) -> Tensor:
    r"""A squared-exponential kernel of lengthscale 0.2 on any device."""
    squares = (v.unsqueeze(-2) - w.unsqueeze(-3)).square().sum(dim=-1)
    return torch.exp(-0.5 * squares / 0.2**2)


def without_points(
    oracle: Callable[..., float], **options: Any
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    return lambda values, weights, points: oracle(values, weights, **options)


def with_kernel_matrix(
    oracle: Callable[..., float], **options: Any
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    return lambda values, weights, points: oracle(
        values, weights, oracles.squared_exponential(points, 0.2), **options
    )


def with_distances(
    oracle: Callable[..., float], **options: Any
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    return lambda values, weights, points: oracle(
        values, weights, ball_oracles.distances(points), **options
    )


def _minimax(sensitivity: Any) -> dict[str, Any]:
    options = {"radius": 0.2, "sensitivity": sensitivity}
    return {
        "measure": MinimaxApproximation(kernel=risk_kernel, **options),
        "oracle": with_kernel_matrix(oracles.minimax_approximation, **options),
        "sees_weight_zero": True,
        "sees_ties": True,  # which point counts as the smallest depends on the order
        "bounds_are_tight": False,
    }


def risk_measure(name: str, measure: RiskMeasure, oracle: Any, **options: Any) -> RiskMeasureCase:
    return RiskMeasureCase(name=name, measure=measure, oracle=oracle, **options)


RISK_MEASURES = [
    risk_measure("expectation", Expectation(), without_points(oracles.expectation)),
    risk_measure(
        "value_at_risk", ValueAtRisk(0.3), without_points(oracles.value_at_risk, risk_level=0.3)
    ),
    risk_measure(
        "conditional_value_at_risk",
        ConditionalValueAtRisk(0.3),
        without_points(oracles.conditional_value_at_risk, level=0.3),
    ),
    risk_measure(
        "worst_case_of_the_support",
        WorstCase(),
        lambda values, weights, points: values[weights > 0].min(),
    ),
    risk_measure(
        "worst_case_of_the_points",
        WorstCase(over="points"),
        lambda values, weights, points: values.min(),
        sees_weight_zero=True,
    ),
    risk_measure(
        "mean_variance",
        MeanVariance(risk_aversion=0.7),
        without_points(oracles.mean_variance, risk_aversion=0.7),
    ),
    risk_measure(
        "share_above",
        ShareAbove(threshold=0.2),
        without_points(oracles.share_above, threshold=0.2),
        threshold=0.2,
    ),
    risk_measure(
        "share_above_in_a_ball",
        ShareAbove(threshold=0.2, under=TotalVariationBall(radius=0.5)),
        lambda values, weights, points: oracles.total_variation_worst_case(
            (values > 0.2).astype(float), weights, radius=0.5
        ),
        sees_weight_zero=True,
        threshold=0.2,
    ),
    risk_measure(
        "share_above_in_an_mmd_ball",
        ShareAbove(0.2, under=MaximumMeanDiscrepancyBall(radius=0.2, kernel=risk_kernel)),
        lambda values, weights, points: with_kernel_matrix(oracles.mmd_worst_case, radius=0.2)(
            (values > 0.2).astype(float), weights, points
        ),
        sees_weight_zero=True,
        threshold=0.2,
    ),
    risk_measure(
        "total_variation_ball",
        TotalVariationBall(radius=0.5),
        without_points(oracles.total_variation_worst_case, radius=0.5),
        sees_weight_zero=True,
    ),
    risk_measure(
        "mmd_ball",
        MaximumMeanDiscrepancyBall(radius=0.2, kernel=risk_kernel),
        with_kernel_matrix(oracles.mmd_worst_case, radius=0.2),
        sees_weight_zero=True,
        gradient=(1e-5, 2e-3),
    ),
    risk_measure(
        "kullback_leibler_ball",
        KullbackLeiblerBall(radius=0.3),
        without_points(ball_oracles.kullback_leibler_worst_case, radius=0.3),
    ),
    risk_measure(
        "chi_square_ball",
        ChiSquareBall(radius=0.6),
        without_points(ball_oracles.chi_square_worst_case, radius=0.6),
    ),
    risk_measure(
        "wasserstein_ball",
        WassersteinBall(radius=0.1),
        with_distances(ball_oracles.wasserstein_worst_case, radius=0.1),
        sees_weight_zero=True,
    ),
    risk_measure(
        "wasserstein_regularization",
        WassersteinRegularization(radius=0.1),
        with_distances(ball_oracles.wasserstein_regularization, radius=0.1),
        sees_weight_zero=True,
    ),
    risk_measure("minimax_approximation", **_minimax("kernel")),
    risk_measure("minimax_approximation_identity", **_minimax("identity"), sees_copies=True),
]
