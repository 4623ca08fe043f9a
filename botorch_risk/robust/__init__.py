r"""Risk in BoTorch's Monte-Carlo acquisition functions, by models and objectives of risks."""

from .monte_carlo import MonteCarloDecision
from .pareto_search import HypervolumeImprovement, pareto_search
from .risk_objective import RiskObjective
from .robust import Robust, robust

__all__ = [
    "HypervolumeImprovement",
    "MonteCarloDecision",
    "RiskObjective",
    "Robust",
    "pareto_search",
    "robust",
]
