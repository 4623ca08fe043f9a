r"""Truncated variance reduction (TRUVAR): optimisation and level sets on a finite domain.

Read in this order: `goals` defines the sets, `state` is the memory between samples with its widths
and report, `gain` is Eq. 3 at points and on a whole domain, `sampling` has noise and cost,
`covering` chooses a batch, and `acquisition` puts them together. `cost_bounds` is the theory.
"""

from .acquisition import TruncatedVarianceReduction
from .cost_bounds import CostBounds, cost_bounds, covering_cost
from .covering import Selection, top_candidates
from .goals import LevelSet, Maximize, RelativeLevelSet
from .sampling import Cost, NoiseLevels
from .state import GuaranteedWidth, PracticalWidth, Status, TruncatedVarianceState, status
from .strategy import SampleDomain, Sampler, TruncateVariance, truvar, truvar_state

__all__ = [
    "Cost",
    "CostBounds",
    "GuaranteedWidth",
    "LevelSet",
    "Maximize",
    "NoiseLevels",
    "PracticalWidth",
    "RelativeLevelSet",
    "SampleDomain",
    "Sampler",
    "Selection",
    "Status",
    "TruncateVariance",
    "TruncatedVarianceReduction",
    "TruncatedVarianceState",
    "cost_bounds",
    "covering_cost",
    "status",
    "top_candidates",
    "truvar",
    "truvar_state",
]
