r"""Measures of risk over a distribution of the environment: pure functions of tensors."""

from .ball import Ball
from .divergences import ChiSquareBall, KullbackLeiblerBall
from .expectation import Expectation
from .mean_variance import MeanVariance
from .measure import RiskMeasure
from .minimax_approximation import MinimaxApproximation
from .mmd import (
    MaximumMeanDiscrepancyBall,
    UncertifiedWorstCaseError,
    maximum_mean_discrepancy_worst_distribution,
)
from .share_above import ShareAbove
from .total_variation import (
    TotalVariationBall,
    total_variation_worst_case,
    total_variation_worst_distribution,
)
from .value_at_risk import ConditionalValueAtRisk, ValueAtRisk
from .wasserstein import WassersteinBall, WassersteinRegularization
from .worst_case import WorstCase

__all__ = [
    "Ball",
    "ChiSquareBall",
    "ConditionalValueAtRisk",
    "Expectation",
    "KullbackLeiblerBall",
    "MaximumMeanDiscrepancyBall",
    "MeanVariance",
    "MinimaxApproximation",
    "RiskMeasure",
    "ShareAbove",
    "TotalVariationBall",
    "UncertifiedWorstCaseError",
    "ValueAtRisk",
    "WassersteinBall",
    "WassersteinRegularization",
    "WorstCase",
    "maximum_mean_discrepancy_worst_distribution",
    "total_variation_worst_case",
    "total_variation_worst_distribution",
]
