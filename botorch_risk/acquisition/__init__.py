r"""Acquisition functions for decisions under risk, one method a file.

Importing this package registers an input constructor for each, for BoTorch's
`get_acqf_input_constructor` and for Ax.
"""

from botorch_risk.acquisition.batch_mean_variance import qRiskAverseUpperConfidenceBound
from botorch_risk.acquisition.confidence_width import heteroscedastic_beta
from botorch_risk.acquisition.mean_variance import (
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.mean_variance_objective import MeanVarianceObjective
from botorch_risk.acquisition.noise_uncertainty import NoisePosteriorStandardDeviation
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.acquisition.protocol import PointwiseAcquisition
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.schedules import (
    continuous_domain_beta,
    finite_domain_beta,
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)

__all__ = [
    "MeanVarianceObjective",
    "NoisePosteriorStandardDeviation",
    "PointwiseAcquisition",
    "PointwiseAcquisitionFunction",
    "RiskAverseLowerConfidenceBound",
    "RiskAverseUpperConfidenceBound",
    "RiskUpperConfidenceBound",
    "continuous_domain_beta",
    "finite_domain_beta",
    "heteroscedastic_beta",
    "maximum_mean_discrepancy_radius",
    "qRiskAverseUpperConfidenceBound",
    "total_variation_radius",
]
