r"""Find the decisions with a risk above a level: samples of the risk, and the next reading."""

from .expected_classification import ExpectedClassification
from .samples import risk_samples
from .straddle import RiskStraddle

__all__ = ["ExpectedClassification", "RiskStraddle", "risk_samples"]
