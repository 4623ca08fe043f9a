r"""Problems for decisions under risk, as subclasses of BoTorch's test functions."""

from botorch_risk.test_functions.certified import CertifiedProblem
from botorch_risk.test_functions.chance_constrained import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    ChanceConstrainedTestProblem,
)
from botorch_risk.test_functions.deceptive import H1, Deceptive
from botorch_risk.test_functions.environmental import (
    EnvironmentalTestProblem,
    bell_shaped_environment,
)
from botorch_risk.test_functions.expectation import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    ExpectationTestProblem,
    Newsvendor,
)
from botorch_risk.test_functions.finite_domain import FiniteDomainProblem, unit_grid
from botorch_risk.test_functions.gaussian_process_samples import (
    GaussianProcessSample,
    PosteriorMeanFunctions,
)
from botorch_risk.test_functions.heteroscedastic import (
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)
from botorch_risk.test_functions.mixed_newsvendor import MixedNewsvendor
from botorch_risk.test_functions.repeats import (
    ConstantNoiseProblem,
    MaximizedTestFunction,
    RepeatedTestProblem,
)
from botorch_risk.test_functions.two_objectives import EnvironmentalSchaffer
from botorch_risk.test_functions.value_at_risk import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskTestProblem,
)

__all__ = [
    "H1",
    "CertifiedProblem",
    "ChanceConstrainedBranin",
    "ChanceConstrainedGramacy",
    "ChanceConstrainedTestProblem",
    "ConstantNoiseProblem",
    "Deceptive",
    "EnvironmentalAckley",
    "EnvironmentalBranin",
    "EnvironmentalHartmann",
    "EnvironmentalSchaffer",
    "EnvironmentalTestProblem",
    "ExpectationTestProblem",
    "FiniteDomainProblem",
    "GaussianProcessSample",
    "HeteroscedasticBranin",
    "HeteroscedasticCamel",
    "HeteroscedasticHartmann",
    "HeteroscedasticSine",
    "HeteroscedasticTestProblem",
    "MaximizedTestFunction",
    "MixedNewsvendor",
    "Newsvendor",
    "PosteriorMeanFunctions",
    "RepeatedTestProblem",
    "ValueAtRiskBranin",
    "ValueAtRiskGoldsteinPrice",
    "ValueAtRiskHartmann",
    "ValueAtRiskTestProblem",
    "bell_shaped_environment",
    "unit_grid",
]
