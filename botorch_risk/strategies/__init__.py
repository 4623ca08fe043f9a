r"""Ask and tell, over one experiment or many replicates at once.

A `Strategy` is a space of points, a method that chooses them, and a history. The papers' methods
are functions in lower case that put the parts together.
"""

from .acquire import Acquire
from .adaptive_repeats import (
    AdaptiveRepeats,
    FixedRepeats,
    MeasuredBox,
    RepeatsRule,
    WorthOfReadings,
    adaptive_repeats,
)
from .decision_then_value import (
    VALUE_RULES,
    DecisionThenValue,
    LacingValue,
    largest_bound,
    largest_reduction,
    least_certain,
    random_decision,
)
from .environment_risk import EnvironmentRisk
from .environment_space import EnvironmentSpace
from .finite_domain import FiniteDomain
from .frame_experiment import FrameExperiment
from .history import History
from .kde import drbo_kde, drbo_mmd, risk_kde, sbo_kde
from .knowledge_gradient import LargestKnowledgeGradient
from .level_set_search import ClassifyRisk, ReadingOfClasses, level_set_search
from .limits import LinearLimit
from .method import Classification, Method, State, View
from .pareto_search import HypervolumeImprovement, ObjectiveRisksRecipe, ParetoSearch, pareto_search
from .rahbo import MeanVarianceSearch, Weights, rahbo, rahbo_us, risk_averse_kg
from .random_search import RandomPoints, random_search
from .risk_search import MonteCarloDecision, RiskRecipe, risk_search
from .running import RepeatedSettingWarning
from .safe_rahbo import SafeMeanVarianceSearch, SafeStart, safe_rahbo
from .single_experiment import SingleExperiment
from .space import Box, Space, initial_design
from .strategy import Strategy
from .table_search import Pair, RankedCondition, TableSearch, table_search
from .truvar import SampleDomain, Sampler, TruncateVariance, truvar, truvar_state
from .uhe_bo import RandomOrAcquire, uhe_bo
from .v_ucb import v_ucb

__all__ = [
    "VALUE_RULES",
    "Acquire",
    "AdaptiveRepeats",
    "Box",
    "Classification",
    "ClassifyRisk",
    "DecisionThenValue",
    "EnvironmentRisk",
    "EnvironmentSpace",
    "FiniteDomain",
    "FixedRepeats",
    "FrameExperiment",
    "History",
    "HypervolumeImprovement",
    "LacingValue",
    "LargestKnowledgeGradient",
    "LinearLimit",
    "MeanVarianceSearch",
    "MeasuredBox",
    "Method",
    "MonteCarloDecision",
    "ObjectiveRisksRecipe",
    "Pair",
    "ParetoSearch",
    "RandomOrAcquire",
    "RandomPoints",
    "RankedCondition",
    "ReadingOfClasses",
    "RepeatedSettingWarning",
    "RepeatsRule",
    "RiskRecipe",
    "SafeMeanVarianceSearch",
    "SafeStart",
    "SampleDomain",
    "Sampler",
    "SingleExperiment",
    "Space",
    "State",
    "Strategy",
    "TableSearch",
    "TruncateVariance",
    "View",
    "Weights",
    "WorthOfReadings",
    "adaptive_repeats",
    "drbo_kde",
    "drbo_mmd",
    "initial_design",
    "largest_bound",
    "largest_reduction",
    "least_certain",
    "level_set_search",
    "pareto_search",
    "rahbo",
    "rahbo_us",
    "random_decision",
    "random_search",
    "risk_averse_kg",
    "risk_kde",
    "risk_search",
    "safe_rahbo",
    "sbo_kde",
    "table_search",
    "truvar",
    "truvar_state",
    "uhe_bo",
    "v_ucb",
]
