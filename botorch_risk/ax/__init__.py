r"""This package by name from Ax: `pip install "botorch_risk[ax]"`, `import botorch_risk.ax`.

The import registers models, acquisition functions and generators with Ax. Generation strategies can
then name them, and experiments that use them can be saved and loaded, as JSON and in SQL.
"""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from .acquisition import ChosenContextAcquisition, PerturbedInputsAcquisition, RiskAcquisition
from .analyses import CalibrationPlot, ContextDistributionPlot, NoiseSlicePlot, RiskFrontierPlot
from .best_arm import BestArm, best_arm
from .contextual import ContextualRiskModel, ObservedDataset
from .finite_table import FiniteTableNode, filled_table, finite_table
from .generation_strategies import (
    level_set,
    risk_averse,
    risk_level_set,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
)
from .generator import RiskGenerator, RiskGenerators
from .observed import ObservedAdapter, readings
from .random_exploration import Exp3Criterion, with_random_exploration
from .storage import register

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
    "risk_level_set",
    "under_perturbed_inputs",
    "under_uncertain_context",
    "value_at_risk",
    "with_random_exploration",
]

register()
