r"""The ask-and-tell interface, for one experiment or many replicates at once.

A `Strategy` is a space of points, a method that chooses them, and a history. Functions, which have
lower-case names, put the parts together; the papers' functions are in `papers`.
"""

from .acquire import Acquire
from .decision_then_value import (
    VALUE_RULES,
    DecisionThenValue,
    LacingValue,
    largest_bound,
    largest_reduction,
    random_decision,
)
from .environment_risk import EnvironmentRisk
from .environment_space import EnvironmentSpace
from .finite_domain import FiniteDomain
from .history import History
from .knowledge_gradient import LargestKnowledgeGradient
from .limits import LinearLimit
from .method import Classification, Method, State, View
from .random_search import RandomPoints, random_search
from .risk_search import RiskRecipe, risk_search
from .running import RepeatedSettingWarning
from .space import Box, Space, initial_design
from .strategy import Strategy

__all__ = [
    "VALUE_RULES",
    "Acquire",
    "Box",
    "Classification",
    "DecisionThenValue",
    "EnvironmentRisk",
    "EnvironmentSpace",
    "FiniteDomain",
    "History",
    "LacingValue",
    "LargestKnowledgeGradient",
    "LinearLimit",
    "Method",
    "RandomPoints",
    "RepeatedSettingWarning",
    "RiskRecipe",
    "Space",
    "State",
    "Strategy",
    "View",
    "initial_design",
    "largest_bound",
    "largest_reduction",
    "random_decision",
    "random_search",
    "risk_search",
]
