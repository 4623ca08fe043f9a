r"""Truncated variance reduction (TRUVAR): optimisation and level sets on a finite domain.

Read in this order: `goals` (what the sets are about), `state` (what is remembered between samples,
its widths and a report of it), `gain` (Eq. 3, at points and on a whole domain), `sampling` (noise
and cost), `covering` (how a batch is chosen), `acquisition` (the whole). `cost_bounds` is
the theory.
"""

from .acquisition import TruncatedVarianceReduction
from .cost_bounds import CostBounds, cost_bounds, covering_cost
from .covering import Selection, top_candidates
from .goals import LevelSet, Maximize, RelativeLevelSet
from .sampling import Cost, NoiseLevels
from .state import GuaranteedWidth, PracticalWidth, Status, TruncatedVarianceState, status

__all__ = [
    "Cost",
    "CostBounds",
    "GuaranteedWidth",
    "LevelSet",
    "Maximize",
    "NoiseLevels",
    "PracticalWidth",
    "RelativeLevelSet",
    "Selection",
    "Status",
    "TruncatedVarianceReduction",
    "TruncatedVarianceState",
    "cost_bounds",
    "covering_cost",
    "status",
    "top_candidates",
]
