r"""Measures of risk over a distribution of the environment: pure tensor functionals."""

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

__all__ = [
    "ConditionalValueAtRisk",
    "Expectation",
    "MaximumMeanDiscrepancyBall",
    "MeanVariance",
    "MinimaxApproximation",
    "PickingRiskMeasure",
    "RiskMeasure",
    "ShareAbove",
    "TotalVariationBall",
    "UncertifiedWorstCaseError",
    "ValueAtRisk",
    "WorstCase",
    "maximum_mean_discrepancy_worst_distribution",
    "total_variation_worst_case",
    "total_variation_worst_distribution",
]
