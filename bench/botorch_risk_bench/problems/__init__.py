r"""Problems made of data and simulators, which measure the plugin."""

from botorch_risk_bench.problems.classifier_tuning import (
    BoostedTreesTuning,
    ClassifierTuning,
    LogisticRegressionTuning,
)
from botorch_risk_bench.problems.coastal_terrain import CoastalTerrain, SurveyCost
from botorch_risk_bench.problems.forest import ForestTuning, StratifiedSplitter
from botorch_risk_bench.problems.lunar_landing import LunarLanding
from botorch_risk_bench.problems.portfolio import PortfolioOptimization, ValueAtRiskPortfolio
from botorch_risk_bench.problems.portfolio_policy import PortfolioPolicy
from botorch_risk_bench.problems.robot_pushing import RobotPushing, ValueAtRiskRobotPushing
from botorch_risk_bench.problems.simulation import SimulatedTestProblem
from botorch_risk_bench.problems.svm_digits import SVMValidationError
from botorch_risk_bench.problems.tabular import TabularProblem

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
    "SVMValidationError",
    "SimulatedTestProblem",
    "StratifiedSplitter",
    "SurveyCost",
    "TabularProblem",
    "ValueAtRiskPortfolio",
    "ValueAtRiskRobotPushing",
]
