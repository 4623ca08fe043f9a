r"""Constraints on the risks of outcomes, their bounds, quantiles of the noise, safe candidates."""

from .constrained_bound import ConstrainedUpperConfidenceBound
from .risk_constraint import NoiseConstraint, NoisyChanceConstraint, RiskConstraint
from .safe_candidate import safe_candidate
from .safe_rahbo import safe_rahbo

__all__ = [
    "ConstrainedUpperConfidenceBound",
    "NoiseConstraint",
    "NoisyChanceConstraint",
    "RiskConstraint",
    "safe_candidate",
    "safe_rahbo",
]
