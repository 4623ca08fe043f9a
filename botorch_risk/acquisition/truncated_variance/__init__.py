r"""Truncated variance reduction (TRUVAR): optimisation and level sets on a finite domain.

Read in this order: `goals` (what the sets are about), `state` (what is remembered between samples,
its widths and a report of it), `gain` (Eq. 3, at points and on a whole domain), `sampling` (noise
and cost), `covering` (how a batch is chosen), `acquisition` (the whole).
"""

from .acquisition import TruncatedVarianceReduction
from .covering import Selection, top_candidates
from .goals import LevelSet, Maximize, RelativeLevelSet
from .sampling import Cost, NoiseLevels
from .state import GuaranteedWidth, PracticalWidth, Status, TruncatedVarianceState, status

__all__ = [
    "Cost",
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
    "status",
    "top_candidates",
]
