r"""Test problems of decisions under risk, as subclasses of BoTorch's test functions."""

from .certified import CertifiedProblem
from .deceptive import H1, Deceptive
from .environmental import EnvironmentalTestProblem, bell_shaped_environment
from .finite_domain import FiniteDomainProblem, unit_grid
from .gaussian_process_samples import GaussianProcessSample, PosteriorMeanFunctions
from .heteroscedastic import (
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)
from .repeats import ConstantNoiseProblem, MaximizedTestFunction, RepeatedTestProblem
from .value_at_risk import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskTestProblem,
)

__all__ = [
    "H1",
    "CertifiedProblem",
    "ConstantNoiseProblem",
    "Deceptive",
    "EnvironmentalTestProblem",
    "FiniteDomainProblem",
    "GaussianProcessSample",
    "HeteroscedasticBranin",
    "HeteroscedasticCamel",
    "HeteroscedasticHartmann",
    "HeteroscedasticSine",
    "HeteroscedasticTestProblem",
    "MaximizedTestFunction",
    "PosteriorMeanFunctions",
    "RepeatedTestProblem",
    "ValueAtRiskBranin",
    "ValueAtRiskGoldsteinPrice",
    "ValueAtRiskHartmann",
    "ValueAtRiskTestProblem",
    "bell_shaped_environment",
    "unit_grid",
]
