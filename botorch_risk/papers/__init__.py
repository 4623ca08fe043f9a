r"""The five papers, with a page (a module or a package) for each.

A page begins with a table of the paper's equations and the functions that compute them. It then
defines what only this paper needs, and a function that builds its strategy from shared parts.
"""

from .kde import (
    drbo_kde,
    drbo_mmd,
    learnt_context_beta,
    maximum_mean_discrepancy_radius,
    risk_kde,
    sbo_kde,
    total_variation_radius,
)
from .lnso import maximize_value_at_risk
from .rahbo import (
    MeanVarianceSearch,
    Weights,
    heteroscedastic_beta,
    information_gain,
    information_of_readings,
    rahbo,
    rahbo_us,
)
from .truvar import (
    Cost,
    CostBounds,
    GuaranteedWidth,
    LevelSet,
    Maximize,
    NoiseLevels,
    PracticalWidth,
    RelativeLevelSet,
    SampleDomain,
    Sampler,
    Selection,
    Status,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    TruncateVariance,
    cost_bounds,
    covering_cost,
    status,
    top_candidates,
    truvar,
    truvar_state,
)
from .uhe_bo import RandomOrAcquire, random_exploration_beta, uhe_bo
from .v_ucb import rkhs_beta, v_ucb

__all__ = [
    "Cost",
    "CostBounds",
    "GuaranteedWidth",
    "LevelSet",
    "Maximize",
    "MeanVarianceSearch",
    "NoiseLevels",
    "PracticalWidth",
    "RandomOrAcquire",
    "RelativeLevelSet",
    "SampleDomain",
    "Sampler",
    "Selection",
    "Status",
    "TruncateVariance",
    "TruncatedVarianceReduction",
    "TruncatedVarianceState",
    "Weights",
    "cost_bounds",
    "covering_cost",
    "drbo_kde",
    "drbo_mmd",
    "heteroscedastic_beta",
    "information_gain",
    "information_of_readings",
    "learnt_context_beta",
    "maximize_value_at_risk",
    "maximum_mean_discrepancy_radius",
    "rahbo",
    "rahbo_us",
    "random_exploration_beta",
    "risk_kde",
    "rkhs_beta",
    "sbo_kde",
    "status",
    "top_candidates",
    "total_variation_radius",
    "truvar",
    "truvar_state",
    "uhe_bo",
    "v_ucb",
]
