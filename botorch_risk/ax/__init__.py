r"""This package by name from Ax: `pip install "botorch_risk[ax]"`, `import botorch_risk.ax`.

The import registers models, acquisition functions and generators with Ax, so that generation
strategies name them, and experiments that use them are saved and loaded, as JSON and in SQL.
"""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from botorch_risk.ax.acquisition import (
    ChosenContextAcquisition,
    PerturbedInputsAcquisition,
    RiskAcquisition,
)
from botorch_risk.ax.analyses import (
    CalibrationPlot,
    ContextDistributionPlot,
    NoiseSlicePlot,
    RiskFrontierPlot,
)
from botorch_risk.ax.best_arm import BestArm, best_arm
from botorch_risk.ax.contextual import ContextualRiskModel, ObservedDataset
from botorch_risk.ax.finite_table import FiniteTableNode, filled_table, finite_table
from botorch_risk.ax.generation_strategies import (
    level_set,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
)
from botorch_risk.ax.generator import RiskGenerator, RiskGenerators
from botorch_risk.ax.observed import ObservedAdapter, readings
from botorch_risk.ax.random_exploration import Exp3Criterion, with_random_exploration
from botorch_risk.ax.storage import register

__all__ = [
    "BestArm",
    "CalibrationPlot",
    "ChosenContextAcquisition",
    "ContextDistributionPlot",
    "ContextualRiskModel",
    "Exp3Criterion",
    "FiniteTableNode",
    "NoiseSlicePlot",
    "ObservedAdapter",
    "ObservedDataset",
    "PerturbedInputsAcquisition",
    "RiskAcquisition",
    "RiskFrontierPlot",
    "RiskGenerator",
    "RiskGenerators",
    "best_arm",
    "filled_table",
    "finite_table",
    "level_set",
    "readings",
    "register",
    "risk_averse",
    "under_perturbed_inputs",
    "under_uncertain_context",
    "value_at_risk",
    "with_random_exploration",
]

register()
