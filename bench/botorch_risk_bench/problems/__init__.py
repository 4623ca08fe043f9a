r"""Problems from papers, data and simulators, to measure the plugin."""

from .chance_constrained import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    ChanceConstrainedTestProblem,
)
from .classifier_tuning import (
    BoostedTreesTuning,
    ClassifierTuning,
    LogisticRegressionTuning,
    vehicle_silhouettes,
)
from .coastal_terrain import CoastalTerrain, SurveyCost
from .expectation import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    ExpectationTestProblem,
    Newsvendor,
)
from .forest import ForestTuning, StratifiedSplitter
from .lunar_landing import LunarLanding
from .mixed_newsvendor import MixedNewsvendor
from .portfolio import PortfolioOptimization, ValueAtRiskPortfolio
from .portfolio_policy import PortfolioPolicy
from .robot_pushing import RobotPushing, ValueAtRiskRobotPushing
from .simulation import SimulatedTestProblem
from .svm_digits import SVMValidationError
from .svm_on_grid import SVMOnGrid
from .tabular import TabularProblem
from .two_objectives import EnvironmentalSchaffer

__all__ = [
    "BoostedTreesTuning",
    "ChanceConstrainedBranin",
    "ChanceConstrainedGramacy",
    "ChanceConstrainedTestProblem",
    "ClassifierTuning",
    "CoastalTerrain",
    "EnvironmentalAckley",
    "EnvironmentalBranin",
    "EnvironmentalHartmann",
    "EnvironmentalSchaffer",
    "ExpectationTestProblem",
    "ForestTuning",
    "LogisticRegressionTuning",
    "LunarLanding",
    "MixedNewsvendor",
    "Newsvendor",
    "PortfolioOptimization",
    "PortfolioPolicy",
    "RobotPushing",
    "SVMOnGrid",
    "SVMValidationError",
    "SimulatedTestProblem",
    "StratifiedSplitter",
    "SurveyCost",
    "TabularProblem",
    "ValueAtRiskPortfolio",
    "ValueAtRiskRobotPushing",
    "vehicle_silhouettes",
]
