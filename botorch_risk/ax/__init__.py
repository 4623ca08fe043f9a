r"""This package by name from Ax: `pip install "botorch_risk[ax]"`, `import botorch_risk.ax`.

The import registers models, acquisition functions and generators with Ax, so that generation
strategies name them, and experiments that use them are saved and loaded, as JSON and in SQL.
"""

from __future__ import annotations

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from botorch_risk.ax.acquisition import RiskAcquisition  # noqa: E402
from botorch_risk.ax.analyses import (  # noqa: E402
    CalibrationPlot,
    ContextDistributionPlot,
    NoiseSlicePlot,
    RiskFrontierPlot,
)
from botorch_risk.ax.best_arm import BestArm, best_arm  # noqa: E402
from botorch_risk.ax.chosen_context import ChosenContextAcquisition  # noqa: E402
from botorch_risk.ax.contextual import ContextualRiskModel  # noqa: E402
from botorch_risk.ax.datasets import ObservedDataset  # noqa: E402
from botorch_risk.ax.exp3_criterion import Exp3Criterion  # noqa: E402
from botorch_risk.ax.generation_strategies import (  # noqa: E402
    level_set,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
)
from botorch_risk.ax.generator import RiskGenerator, RiskGenerators  # noqa: E402
from botorch_risk.ax.observed import ObservedAdapter  # noqa: E402
from botorch_risk.ax.perturbed_inputs import PerturbedInputsAcquisition  # noqa: E402
from botorch_risk.ax.random_exploration import with_random_exploration  # noqa: E402
from botorch_risk.ax.repeats import readings  # noqa: E402
from botorch_risk.ax.storage import register  # noqa: E402

__all__ = [
    "BestArm",
    "CalibrationPlot",
    "ChosenContextAcquisition",
    "ContextDistributionPlot",
    "ContextualRiskModel",
    "Exp3Criterion",
    "NoiseSlicePlot",
    "ObservedAdapter",
    "ObservedDataset",
    "PerturbedInputsAcquisition",
    "RiskAcquisition",
    "RiskFrontierPlot",
    "RiskGenerator",
    "RiskGenerators",
    "best_arm",
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
