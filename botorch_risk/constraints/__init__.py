r"""Constraints on the risks of outcomes, their bounds, and quantiles of the noise."""

from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.noise_quantile import NoiseQuantileBound, NoiseQuantileModel
from botorch_risk.constraints.risk_constraint import NoisyChanceConstraint, RiskConstraint

__all__ = [
    "ConstrainedUpperConfidenceBound",
    "NoiseQuantileBound",
    "NoiseQuantileModel",
    "NoisyChanceConstraint",
    "RiskConstraint",
]
