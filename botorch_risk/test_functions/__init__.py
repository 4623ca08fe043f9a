r"""Problems for decisions under risk, as subclasses of BoTorch's test functions."""

from .certified import CertifiedProblem
from .chance_constrained import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    ChanceConstrainedTestProblem,
)
from .deceptive import H1, Deceptive
from .environmental import EnvironmentalTestProblem, bell_shaped_environment
from .expectation import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    ExpectationTestProblem,
    Newsvendor,
)
from .finite_domain import FiniteDomainProblem, unit_grid
from .gaussian_process_samples import GaussianProcessSample, PosteriorMeanFunctions
from .heteroscedastic import (
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)
from .mixed_newsvendor import MixedNewsvendor
from .repeats import ConstantNoiseProblem, MaximizedTestFunction, RepeatedTestProblem
from .two_objectives import EnvironmentalSchaffer
from .value_at_risk import (
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
