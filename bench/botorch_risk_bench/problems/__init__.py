r"""Problems from data and simulators, to measure the plugin."""

from .classifier_tuning import (
    BoostedTreesTuning,
    ClassifierTuning,
    LogisticRegressionTuning,
    vehicle_silhouettes,
)
from .coastal_terrain import CoastalTerrain, SurveyCost
from .forest import ForestTuning, StratifiedSplitter
from .lunar_landing import LunarLanding
from .portfolio import PortfolioOptimization, ValueAtRiskPortfolio
from .portfolio_policy import PortfolioPolicy
from .robot_pushing import RobotPushing, ValueAtRiskRobotPushing
from .simulation import SimulatedTestProblem
from .svm_digits import SVMValidationError
from .svm_on_grid import SVMOnGrid
from .tabular import TabularProblem

__all__ = [
    "BoostedTreesTuning",
    "ClassifierTuning",
    "CoastalTerrain",
    "ForestTuning",
    "LogisticRegressionTuning",
    "LunarLanding",
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
