r"""Ask and tell, over one experiment or many replicates at once.

A `Strategy` is a space (what a point is), a method (how points are chosen) and a history. The
papers' methods are functions in lower case that put the parts together.
"""

from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.adaptive_repeats import (
    AdaptiveRepeats,
    FixedRepeats,
    MeasuredBox,
    RepeatsRule,
    WorthOfReadings,
    adaptive_repeats,
)
from botorch_risk.strategies.decision_then_value import (
    VALUE_RULES,
    DecisionThenValue,
    LacingValue,
    largest_bound,
    largest_reduction,
    least_certain,
    random_decision,
)
from botorch_risk.strategies.environment_risk import EnvironmentRisk
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.history import History
from botorch_risk.strategies.kde import drbo_kde, drbo_mmd, risk_kde, sbo_kde
from botorch_risk.strategies.knowledge_gradient import LargestKnowledgeGradient
from botorch_risk.strategies.method import Classification, Method, State, View
from botorch_risk.strategies.pareto_search import (
    HypervolumeImprovement,
    ObjectiveRisksRecipe,
    ParetoSearch,
    pareto_search,
)
from botorch_risk.strategies.rahbo import (
    MeanVarianceSearch,
    Weights,
    rahbo,
    rahbo_us,
    risk_averse_kg,
)
from botorch_risk.strategies.random_search import RandomPoints, random_search
from botorch_risk.strategies.risk_search import MonteCarloDecision, RiskRecipe, risk_search
from botorch_risk.strategies.single_experiment import SingleExperiment
from botorch_risk.strategies.space import Box, Space, initial_design
from botorch_risk.strategies.strategy import Strategy
from botorch_risk.strategies.table_search import Pair, RankedCondition, TableSearch, table_search
from botorch_risk.strategies.truvar import (
    FiniteDomain,
    SampleDomain,
    Sampler,
    TruncateVariance,
    truvar,
    truvar_state,
)
from botorch_risk.strategies.uhe_bo import RandomOrAcquire, uhe_bo
from botorch_risk.strategies.v_ucb import v_ucb

__all__ = [
    "VALUE_RULES",
    "Acquire",
    "AdaptiveRepeats",
    "Box",
    "Classification",
    "DecisionThenValue",
    "EnvironmentRisk",
    "EnvironmentSpace",
    "FiniteDomain",
    "FixedRepeats",
    "History",
    "HypervolumeImprovement",
    "LacingValue",
    "LargestKnowledgeGradient",
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
    "RepeatsRule",
    "RiskRecipe",
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
    "pareto_search",
    "rahbo",
    "rahbo_us",
    "random_decision",
    "random_search",
    "risk_averse_kg",
    "risk_kde",
    "risk_search",
    "sbo_kde",
    "table_search",
    "truvar",
    "truvar_state",
    "uhe_bo",
    "v_ucb",
]
