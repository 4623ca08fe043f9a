r"""Acquisition functions for decisions under risk, one method a file.

Importing this package registers an input constructor for each, for BoTorch's
`get_acqf_input_constructor` and for Ax.
"""

from .joint_risk_ucb import JointRiskUpperConfidenceBound
from .knowledge_gradient import LogRiskKnowledgeGradient, decisions_to_compare
from .lacing import certified_regret, covering_mask, lacing_mask, select_lacing_value
from .level_set import Straddle
from .lnso import maximize_value_at_risk
from .mean_variance import (
    MeanVarianceObjective,
    NoisePosteriorStandardDeviation,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from .named import contextual_gp_ucb, gp_ucb, risk_bound, v_ucb
from .pointwise import PointwiseAcquisitionFunction
from .risk_ucb import RiskUpperConfidenceBound
from .select_value import select_value
from .truncated_variance import (
    Cost,
    CostBounds,
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
    cost_bounds,
    covering_cost,
    status,
    top_candidates,
)
from .widths import bayesian_beta, maximum_mean_discrepancy_radius, total_variation_radius
from .widths_of_theorems import (
    heteroscedastic_beta,
    information_gain,
    information_of_readings,
    learnt_context_beta,
    random_exploration_beta,
    rkhs_beta,
)

__all__ = [
    "Cost",
    "CostBounds",
    "GuaranteedWidth",
    "JointRiskUpperConfidenceBound",
    "LevelSet",
    "LogRiskKnowledgeGradient",
    "Maximize",
    "MeanVarianceObjective",
    "NoiseLevels",
    "NoisePosteriorStandardDeviation",
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
    "bayesian_beta",
    "certified_regret",
    "contextual_gp_ucb",
    "cost_bounds",
    "covering_cost",
    "covering_mask",
    "decisions_to_compare",
    "gp_ucb",
    "heteroscedastic_beta",
    "information_gain",
    "information_of_readings",
    "lacing_mask",
    "learnt_context_beta",
    "maximize_value_at_risk",
    "maximum_mean_discrepancy_radius",
    "qRiskAverseUpperConfidenceBound",
    "random_exploration_beta",
    "risk_bound",
    "rkhs_beta",
    "select_lacing_value",
    "select_value",
    "status",
    "top_candidates",
    "total_variation_radius",
    "v_ucb",
]
