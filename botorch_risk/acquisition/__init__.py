r"""Acquisition functions for decisions under risk, one method a file.

Importing this package registers an input constructor for each, for BoTorch's
`get_acqf_input_constructor` and for Ax.
"""

from botorch_risk.acquisition.joint_risk_ucb import JointRiskUpperConfidenceBound
from botorch_risk.acquisition.knowledge_gradient import (
    LogRiskKnowledgeGradient,
    decisions_to_compare,
)
from botorch_risk.acquisition.lacing import covering_mask, lacing_mask, select_lacing_value
from botorch_risk.acquisition.level_set import Straddle
from botorch_risk.acquisition.mean_variance import (
    MeanVarianceObjective,
    NoisePosteriorStandardDeviation,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.named import (
    adversarial_stable_opt,
    contextual_gp_ucb,
    drbo_kde,
    drbo_mmd,
    gp_ucb,
    risk_bound,
    risk_kde,
    sbo_kde,
    stable_opt,
    v_ucb,
)
from botorch_risk.acquisition.pointwise import PointwiseAcquisition, PointwiseAcquisitionFunction
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.select_value import select_value
from botorch_risk.acquisition.truncated_variance import (
    Cost,
    GuaranteedWidth,
    LevelSet,
    Maximize,
    NoiseLevels,
    PracticalWidth,
    RelativeLevelSet,
    Selection,
    Status,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    status,
    top_candidates,
)
from botorch_risk.acquisition.widths import (
    bayesian_beta,
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)

__all__ = [
    "Cost",
    "GuaranteedWidth",
    "JointRiskUpperConfidenceBound",
    "LevelSet",
    "LogRiskKnowledgeGradient",
    "Maximize",
    "MeanVarianceObjective",
    "NoiseLevels",
    "NoisePosteriorStandardDeviation",
    "PointwiseAcquisition",
    "PointwiseAcquisitionFunction",
    "PracticalWidth",
    "RelativeLevelSet",
    "RiskAverseLowerConfidenceBound",
    "RiskAverseUpperConfidenceBound",
    "RiskUpperConfidenceBound",
    "Selection",
    "Status",
    "Straddle",
    "TruncatedVarianceReduction",
    "TruncatedVarianceState",
    "adversarial_stable_opt",
    "bayesian_beta",
    "contextual_gp_ucb",
    "covering_mask",
    "decisions_to_compare",
    "drbo_kde",
    "drbo_mmd",
    "gp_ucb",
    "lacing_mask",
    "maximum_mean_discrepancy_radius",
    "qRiskAverseUpperConfidenceBound",
    "risk_bound",
    "risk_kde",
    "sbo_kde",
    "select_lacing_value",
    "select_value",
    "stable_opt",
    "status",
    "top_candidates",
    "total_variation_radius",
    "v_ucb",
]
