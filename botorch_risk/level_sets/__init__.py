r"""Find the decisions with a risk above a level: classes of decisions, and the next reading."""

from .expected_classification import ExpectedClassification
from .level_set_search import level_set_search
from .outcome_straddle import Straddle
from .straddle import RiskStraddle

__all__ = ["ExpectedClassification", "RiskStraddle", "Straddle", "level_set_search"]
