r"""The papers' baselines, and ablations."""

from .ask_tell import AskTell, AskTellOptimizer, ask_tell
from .botorch_pareto import conditional_value_at_risk_log_nehvi, mars_log_nei
from .botorch_risk_measure import botorch_risk_measure
from .botorch_value_at_risk import rho_knowledge_gradient, value_at_risk_log_nei
from .constrained_log_ei import constrained_log_ei
from .contexts import context_free_gp_ucb, stable_opt
from .domain_search import (
    expected_improvement_search,
    gchk,
    maximum_variance_search,
    minimum_regret_search,
    straddle_search,
    upper_confidence_bound_search,
)
from .entropy_search import max_value_entropy_search, predictive_entropy_search
from .hyperparameters import (
    fully_bayesian_gp_ucb,
    gp_ucb,
    portfolio_exp3,
    pseudo_data_gp_ucb,
    ra_bo,
    random_exp3,
)
from .known_environment import adversarial_stable_opt, contextual_gp_ucb, random_pairs
from .mean_variance import heteroscedastic_gp_ucb, mean_variance_log_nei
from .published_v_ucb import v_ucb_by_likelihood, v_ucb_by_surrogate
from .random_decisions import random_decisions, random_pareto_search
from .repeats import bts_red, hetgp_horizon
from .shorter_lengthscales import a_gp_ucb, wang_de_freitas_gp_ucb

__all__ = [
    "AskTell",
    "AskTellOptimizer",
    "a_gp_ucb",
    "adversarial_stable_opt",
    "ask_tell",
    "botorch_risk_measure",
    "bts_red",
    "conditional_value_at_risk_log_nehvi",
    "constrained_log_ei",
    "context_free_gp_ucb",
    "contextual_gp_ucb",
    "expected_improvement_search",
    "fully_bayesian_gp_ucb",
    "gchk",
    "gp_ucb",
    "heteroscedastic_gp_ucb",
    "hetgp_horizon",
    "mars_log_nei",
    "max_value_entropy_search",
    "maximum_variance_search",
    "mean_variance_log_nei",
    "minimum_regret_search",
    "portfolio_exp3",
    "predictive_entropy_search",
    "pseudo_data_gp_ucb",
    "ra_bo",
    "random_decisions",
    "random_exp3",
    "random_pairs",
    "random_pareto_search",
    "rho_knowledge_gradient",
    "stable_opt",
    "straddle_search",
    "upper_confidence_bound_search",
    "v_ucb_by_likelihood",
    "v_ucb_by_surrogate",
    "value_at_risk_log_nei",
    "wang_de_freitas_gp_ucb",
]
