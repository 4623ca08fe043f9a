r"""Use this package from Ax: `pip install "botorch_risk[ax]"`, `import botorch_risk.ax`.

The import registers models, acquisition functions and generators with Ax. Generation strategies can
then name them, and experiments that use them can be saved and loaded, as JSON and in SQL. Further
parts for Ax are in modules `with_ax`: strategies in `level_sets`, finite tables in `tables`, and a
card of the model's calibration in `diagnostics`.
"""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from .analyses import ContextDistributionPlot, NoiseSlicePlot, RiskFrontierPlot
from .best_arm import BestArm, best_arm
from .generation_strategies import (
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
)
from .generator import RiskGenerators
from .observed import readings
from .random_exploration import with_random_exploration
from .storage import register

__all__ = [
    "BestArm",
    "ContextDistributionPlot",
    "NoiseSlicePlot",
    "RiskFrontierPlot",
    "RiskGenerators",
    "best_arm",
    "readings",
    "risk_averse",
    "under_perturbed_inputs",
    "under_uncertain_context",
    "value_at_risk",
    "with_random_exploration",
]

register()
