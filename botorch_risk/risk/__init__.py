r"""Measures of risk over a distribution of the environment: pure tensor functionals."""

from .ball import Ball
from .divergences import (
    ChiSquareBall,
    KullbackLeiblerBall,
    chi_square_worst_distribution,
    kullback_leibler_worst_distribution,
)
from .measures import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    PickingRiskMeasure,
    RiskMeasure,
    ShareAbove,
    ValueAtRisk,
    WorstCase,
)
from .minimax_approximation import MinimaxApproximation
from .mmd import (
    MaximumMeanDiscrepancyBall,
    UncertifiedWorstCaseError,
    maximum_mean_discrepancy_worst_distribution,
)
from .total_variation import (
    TotalVariationBall,
    total_variation_worst_case,
    total_variation_worst_distribution,
)
from .wasserstein import WassersteinBall, WassersteinRegularization, wasserstein_worst_distribution

__all__ = [
    "Ball",
    "ChiSquareBall",
    "ConditionalValueAtRisk",
    "Expectation",
    "KullbackLeiblerBall",
    "MaximumMeanDiscrepancyBall",
    "MeanVariance",
    "MinimaxApproximation",
    "PickingRiskMeasure",
    "RiskMeasure",
    "ShareAbove",
    "TotalVariationBall",
    "UncertifiedWorstCaseError",
    "ValueAtRisk",
    "WassersteinBall",
    "WassersteinRegularization",
    "WorstCase",
    "chi_square_worst_distribution",
    "kullback_leibler_worst_distribution",
    "maximum_mean_discrepancy_worst_distribution",
    "total_variation_worst_case",
    "total_variation_worst_distribution",
    "wasserstein_worst_distribution",
]
