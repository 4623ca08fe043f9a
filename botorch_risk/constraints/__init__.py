r"""Constraints on the risks of outcomes, their bounds, and quantiles of the noise."""

from .constrained_bound import ConstrainedUpperConfidenceBound
from .noise_quantile import NoiseQuantileBound, NoiseQuantileModel
from .risk_constraint import NoisyChanceConstraint, RiskConstraint

__all__ = [
    "ConstrainedUpperConfidenceBound",
    "NoiseQuantileBound",
    "NoiseQuantileModel",
    "NoisyChanceConstraint",
    "RiskConstraint",
]
