r"""BoTorch's registry, which is not imported for us but knows our classes."""

import subprocess
import sys

import pytest

SLOW_TO_IMPORT = ("botorch.acquisition.input_constructors", "botorch.fit", "scipy.stats")

FIRST_OURS = """
import sys
import botorch_risk.acquisition
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.papers import TruncatedVarianceReduction
loaded = [name for name in {slow} if name in sys.modules]
assert not loaded, loaded
"""
FIRST_THEIRS = """
import botorch.acquisition.input_constructors
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.papers import TruncatedVarianceReduction
"""
THEN = """
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
for kind in (RiskUpperConfidenceBound, TruncatedVarianceReduction, LogRiskAverseKnowledgeGradient):
    get_acqf_input_constructor(kind)  # raises for a class that it does not know
"""


@pytest.mark.parametrize("first", (FIRST_THEIRS, pytest.param(FIRST_OURS, marks=pytest.mark.slow)))
@pytest.mark.slow
def test_the_registry_knows_our_classes_whichever_is_imported_first(first: str) -> None:
    program = first.format(slow=SLOW_TO_IMPORT) + THEN
    subprocess.run([sys.executable, "-c", program], check=True)
