r"""Optimisation of acquisition functions, all replicates at once."""

from botorch_risk.optim.candidates import gen_candidates_quasi_newton
from botorch_risk.optim.lnso import maximize_value_at_risk
from botorch_risk.optim.multistart import optimize_acqf_replicates

__all__ = ["gen_candidates_quasi_newton", "maximize_value_at_risk", "optimize_acqf_replicates"]
