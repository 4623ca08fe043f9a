r"""Repeats in Ax: `import botorch_risk.ax` registers these acquisition functions by name."""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from botorch_risk import repeats
from botorch_risk.ax.storage import register_acquisition_functions

register_acquisition_functions(repeats)
