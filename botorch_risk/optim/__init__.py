r"""Optimisation of acquisition functions, all replicates at once."""

from .lnso import maximize_value_at_risk
from .multistart import optimize_acqf_replicates

__all__ = ["maximize_value_at_risk", "optimize_acqf_replicates"]
