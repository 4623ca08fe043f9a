r"""Acquisition functions for decisions under risk, one method per file.

Importing this package registers an input constructor for each, for BoTorch's
`get_acqf_input_constructor` and for Ax.

A class of your own derives from `PointwiseAcquisitionFunction` and defines `score`, the values of
points, and, if it wishes, `_condition`, how points under evaluation count. `OutcomesOverW` gives it
the moments of the outcome at all w. CONTRIBUTING.md has a full example.
"""

from .joint_risk_ucb import JointRiskUpperConfidenceBound
from .knowledge_gradient import LogRiskKnowledgeGradient, decisions_to_compare
from .lacing import certified_regret, lacing_mask, select_lacing_value
from .mean_variance import (
    MeanVarianceObjective,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from .pointwise import PointwiseAcquisitionFunction
from .risk_bound import gp_ucb, risk_bound
from .risk_samples import risk_samples
from .risk_ucb import RiskUpperConfidenceBound
from .select_value import select_value
from .widths import bayesian_beta

__all__ = [
    "JointRiskUpperConfidenceBound",
    "LogRiskKnowledgeGradient",
    "MeanVarianceObjective",
    "PointwiseAcquisitionFunction",
    "RiskAverseLowerConfidenceBound",
    "RiskAverseUpperConfidenceBound",
    "RiskUpperConfidenceBound",
    "bayesian_beta",
    "certified_regret",
    "decisions_to_compare",
    "gp_ucb",
    "lacing_mask",
    "qRiskAverseUpperConfidenceBound",
    "risk_bound",
    "risk_samples",
    "select_lacing_value",
    "select_value",
]
