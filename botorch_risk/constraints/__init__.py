r"""Constraints on the risks of outcomes, their bounds, quantiles of the noise, safe candidates."""

from .constrained_bound import ConstrainedUpperConfidenceBound
from .noise_quantile import NoiseDeviationBound, NoiseQuantileBound, NoiseQuantileModel
from .risk_constraint import NoiseConstraint, NoisyChanceConstraint, RiskConstraint
from .safe_candidate import safe_candidate
from .safe_rahbo import SafeMeanVarianceSearch, SafeStart, safe_rahbo

__all__ = [
    "ConstrainedUpperConfidenceBound",
    "NoiseConstraint",
    "NoiseDeviationBound",
    "NoiseQuantileBound",
    "NoiseQuantileModel",
    "NoisyChanceConstraint",
    "RiskConstraint",
    "SafeMeanVarianceSearch",
    "SafeStart",
    "safe_candidate",
    "safe_rahbo",
]
