r"""Problems for decisions under risk, as subclasses of BoTorch's test functions."""

from botorch_risk.test_functions.classifier_tuning import (
    BoostedTreesTuning,
    ClassifierTuning,
    LogisticRegressionTuning,
)
from botorch_risk.test_functions.coastal_terrain import CoastalTerrain, SurveyCost
from botorch_risk.test_functions.deceptive import H1, Deceptive
from botorch_risk.test_functions.environmental import EnvironmentalTestProblem
from botorch_risk.test_functions.environmental_synthetic import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
)
from botorch_risk.test_functions.finite_domain import FiniteDomainProblem, unit_grid
from botorch_risk.test_functions.forest import (
    ForestTuning,
    StratifiedSplitter,
    TimeOrderedSplitter,
)
from botorch_risk.test_functions.gaussian_process_samples import (
    GaussianProcessSample,
    PosteriorMeanFunctions,
)
from botorch_risk.test_functions.heteroscedastic import (
    HeteroscedasticBranin,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)
from botorch_risk.test_functions.lunar_landing import LunarLanding
from botorch_risk.test_functions.newsvendor import Newsvendor
from botorch_risk.test_functions.portfolio import PortfolioOptimization
from botorch_risk.test_functions.repeats import RepeatedTestProblem
from botorch_risk.test_functions.robot_pushing import RobotPushing
from botorch_risk.test_functions.svm_digits import SVMValidationError
from botorch_risk.test_functions.value_at_risk import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskPortfolio,
    ValueAtRiskTestProblem,
)

__all__ = [
    "H1",
    "BoostedTreesTuning",
    "ClassifierTuning",
    "CoastalTerrain",
    "Deceptive",
    "EnvironmentalAckley",
    "EnvironmentalBranin",
    "EnvironmentalHartmann",
    "EnvironmentalTestProblem",
    "FiniteDomainProblem",
    "ForestTuning",
    "GaussianProcessSample",
    "HeteroscedasticBranin",
    "HeteroscedasticSine",
    "HeteroscedasticTestProblem",
    "LogisticRegressionTuning",
    "LunarLanding",
    "Newsvendor",
    "PortfolioOptimization",
    "PosteriorMeanFunctions",
    "RepeatedTestProblem",
    "RobotPushing",
    "SVMValidationError",
    "StratifiedSplitter",
    "SurveyCost",
    "TimeOrderedSplitter",
    "ValueAtRiskBranin",
    "ValueAtRiskGoldsteinPrice",
    "ValueAtRiskHartmann",
    "ValueAtRiskPortfolio",
    "ValueAtRiskTestProblem",
    "unit_grid",
]
