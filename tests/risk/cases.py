r"""Every measure of risk, one line each; `test_contract.py` tests what they share."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
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


@dataclass(frozen=True)
class RiskMeasureCase:
    r"""A measure of risk and an independent value of it.

    Args:
        name: Names the case.
        measure: The measure, not bound to any points.
        oracle: From `n_w` values, their weights and their points to a number.
        sees_weight_zero: Whether points of weight 0 matter.
        sees_copies: Whether it matters that one point is given as two, with half the weight each.
        is_a_share: Whether it is a probability, which has no unit, rather than an outcome.
        gradient: The step and the tolerance of the check of the gradient.
    """

    name: str
    measure: RiskMeasure
    oracle: Callable[[np.ndarray, np.ndarray, np.ndarray], float]
    sees_weight_zero: bool = False
    sees_copies: bool = False
    is_a_share: bool = False
    gradient: tuple[float, float] = (1e-6, 1e-6)

    @property
    def needs_points(self) -> bool:
        r"""Whether it has to be bound to points."""
        return hasattr(self.measure, "kernel") or hasattr(self.measure, "metric")

    def bind(self, points: Tensor) -> RiskMeasure:
        return self.measure.bind(SimpleNamespace(points=points))


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
    }


RISK_MEASURES = [
    RiskMeasureCase("expectation", Expectation(), without_points(oracles.expectation)),
    RiskMeasureCase(
        "value_at_risk", ValueAtRisk(0.3), without_points(oracles.value_at_risk, risk_level=0.3)
    ),
    RiskMeasureCase(
        "conditional_value_at_risk",
        ConditionalValueAtRisk(0.3),
        without_points(oracles.conditional_value_at_risk, level=0.3),
    ),
    RiskMeasureCase(
        "worst_case_of_the_support",
        WorstCase(),
        lambda values, weights, points: values[weights > 0].min(),
    ),
    RiskMeasureCase(
        "worst_case_of_the_points",
        WorstCase(over="points"),
        lambda values, weights, points: values.min(),
        sees_weight_zero=True,
    ),
    RiskMeasureCase(
        "mean_variance",
        MeanVariance(risk_aversion=0.7),
        without_points(oracles.mean_variance, risk_aversion=0.7),
    ),
    RiskMeasureCase(
        "share_above",
        ShareAbove(threshold=0.2),
        without_points(oracles.share_above, threshold=0.2),
        is_a_share=True,
    ),
    RiskMeasureCase(
        "total_variation_ball",
        TotalVariationBall(radius=0.5),
        without_points(oracles.total_variation_worst_case, radius=0.5),
        sees_weight_zero=True,
    ),
    RiskMeasureCase(
        "mmd_ball",
        MaximumMeanDiscrepancyBall(radius=0.2, kernel=risk_kernel),
        with_kernel_matrix(oracles.mmd_worst_case, radius=0.2),
        sees_weight_zero=True,
        gradient=(1e-5, 2e-3),
    ),
    RiskMeasureCase(
        "kullback_leibler_ball",
        KullbackLeiblerBall(radius=0.3),
        without_points(ball_oracles.kullback_leibler_worst_case, radius=0.3),
    ),
    RiskMeasureCase(
        "chi_square_ball",
        ChiSquareBall(radius=0.6),
        without_points(ball_oracles.chi_square_worst_case, radius=0.6),
    ),
    RiskMeasureCase(
        "wasserstein_ball",
        WassersteinBall(radius=0.1),
        with_distances(ball_oracles.wasserstein_worst_case, radius=0.1),
        sees_weight_zero=True,
    ),
    RiskMeasureCase(
        "wasserstein_regularization",
        WassersteinRegularization(radius=0.1),
        with_distances(ball_oracles.wasserstein_regularization, radius=0.1),
        sees_weight_zero=True,
    ),
    RiskMeasureCase("minimax_approximation", **_minimax("kernel")),
    RiskMeasureCase("minimax_approximation_identity", **_minimax("identity"), sees_copies=True),
]
