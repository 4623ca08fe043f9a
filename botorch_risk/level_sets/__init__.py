r"""Which decisions have a risk above a level: samples of the risk, and what to read next."""

from .expected_classification import ExpectedClassification
from .samples import risk_samples
from .straddle import RiskStraddle

__all__ = ["ExpectedClassification", "RiskStraddle", "risk_samples"]
