r"""Outcome constraints in Ax: each holds under a risk; `import botorch_risk.ax` registers them."""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from botorch_risk import constraints
from botorch_risk.ax.acquisition import register_constraint
from botorch_risk.ax.storage import register_acquisition_functions
from botorch_risk.constraints import RiskConstraint

register_acquisition_functions(constraints)
register_constraint(RiskConstraint)
