r"""Problems for decisions under risk, as subclasses of BoTorch's test functions."""

from botorch_risk.test_functions.certified import CertifiedProblem
from botorch_risk.test_functions.chance_constrained import ChanceConstrainedTestProblem
from botorch_risk.test_functions.chance_constrained_synthetic import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
)
from botorch_risk.test_functions.constant_noise import ConstantNoiseProblem
from botorch_risk.test_functions.deceptive import H1, Deceptive
from botorch_risk.test_functions.environmental import (
    EnvironmentalTestProblem,
    bell_shaped_environment,
)
from botorch_risk.test_functions.expectation import ExpectationTestProblem
from botorch_risk.test_functions.expectation_synthetic import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
)
from botorch_risk.test_functions.finite_domain import FiniteDomainProblem, unit_grid
from botorch_risk.test_functions.gaussian_process_samples import (
    GaussianProcessSample,
    PosteriorMeanFunctions,
)
from botorch_risk.test_functions.heteroscedastic import (
    HeteroscedasticBranin,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)
from botorch_risk.test_functions.heteroscedastic_synthetic import (
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
)
from botorch_risk.test_functions.maximized import MaximizedTestFunction
from botorch_risk.test_functions.mixed_newsvendor import MixedNewsvendor
from botorch_risk.test_functions.newsvendor import Newsvendor
from botorch_risk.test_functions.repeats import RepeatedTestProblem
from botorch_risk.test_functions.two_objectives import EnvironmentalSchaffer
from botorch_risk.test_functions.value_at_risk import ValueAtRiskTestProblem
from botorch_risk.test_functions.value_at_risk_synthetic import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
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
