r"""Acquisition functions for decisions under risk, one method a file.

Importing this package registers an input constructor for each, for BoTorch's
`get_acqf_input_constructor` and for Ax.
"""

from botorch_risk.acquisition.batch_mean_variance import qRiskAverseUpperConfidenceBound
from botorch_risk.acquisition.confidence_width import heteroscedastic_beta
from botorch_risk.acquisition.epochs import GuaranteedWidth, ImplicitThreshold, PracticalWidth
from botorch_risk.acquisition.greedy_covering import Selection
from botorch_risk.acquisition.lacing import covering_mask, lacing_mask, select_lacing_value
from botorch_risk.acquisition.level_set import Ambiguity, MaximumVariance, Straddle
from botorch_risk.acquisition.mean_variance import (
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.mean_variance_objective import MeanVarianceObjective
from botorch_risk.acquisition.named import (
    drbo_kde,
    drbo_mmd,
    drbo_mmd_minimax,
    sbo_kde,
    stable_opt,
)
from botorch_risk.acquisition.named_known import (
    adversarial_stable_opt,
    contextual_gp_ucb,
    gp_ucb,
    v_ucb,
)
from botorch_risk.acquisition.noise_uncertainty import NoisePosteriorStandardDeviation
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.acquisition.protocol import PointwiseAcquisition
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.sampling_terms import Cost, NoiseLevels
from botorch_risk.acquisition.schedules import (
    continuous_domain_beta,
    finite_domain_beta,
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)
from botorch_risk.acquisition.targeted_variance import TargetedIntegratedVariance
from botorch_risk.acquisition.top_candidates import top_candidates
from botorch_risk.acquisition.truncated_variance import TruncatedVarianceReduction
from botorch_risk.acquisition.truncated_variance_state import TruncatedVarianceState
from botorch_risk.acquisition.value_at_risk_schedules import (
    bayesian_beta,
    information_gain,
    rkhs_beta,
)

__all__ = [
    "Ambiguity",
    "Cost",
    "GuaranteedWidth",
    "ImplicitThreshold",
    "MaximumVariance",
    "MeanVarianceObjective",
    "NoiseLevels",
    "NoisePosteriorStandardDeviation",
    "PointwiseAcquisition",
    "PointwiseAcquisitionFunction",
    "PracticalWidth",
    "RiskAverseLowerConfidenceBound",
    "RiskAverseUpperConfidenceBound",
    "RiskUpperConfidenceBound",
    "Selection",
    "Straddle",
    "TargetedIntegratedVariance",
    "TruncatedVarianceReduction",
    "TruncatedVarianceState",
    "adversarial_stable_opt",
    "bayesian_beta",
    "contextual_gp_ucb",
    "continuous_domain_beta",
    "covering_mask",
    "drbo_kde",
    "drbo_mmd",
    "drbo_mmd_minimax",
    "finite_domain_beta",
    "gp_ucb",
    "heteroscedastic_beta",
    "information_gain",
    "lacing_mask",
    "maximum_mean_discrepancy_radius",
    "qRiskAverseUpperConfidenceBound",
    "rkhs_beta",
    "sbo_kde",
    "select_lacing_value",
    "stable_opt",
    "top_candidates",
    "total_variation_radius",
    "v_ucb",
]
