r"""Problems for decisions under risk, as subclasses of BoTorch's test functions."""

from botorch_risk.test_functions.forest import (
    ForestTuning,
    StratifiedSplitter,
    TimeOrderedSplitter,
)
from botorch_risk.test_functions.heteroscedastic import (
    HeteroscedasticBranin,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)
from botorch_risk.test_functions.repeats import RepeatedTestProblem

__all__ = [
    "ForestTuning",
    "HeteroscedasticBranin",
    "HeteroscedasticSine",
    "HeteroscedasticTestProblem",
    "RepeatedTestProblem",
    "StratifiedSplitter",
    "TimeOrderedSplitter",
]
