r"""Optimisation of acquisition functions, all replicates at once."""

from botorch_risk.optim.lnso import maximize_value_at_risk
from botorch_risk.optim.multistart import optimize_acqf_replicates

__all__ = ["maximize_value_at_risk", "optimize_acqf_replicates"]
