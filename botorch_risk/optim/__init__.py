r"""Optimisation of acquisition functions, all replicates at once."""

from botorch_risk.optim.multistart import optimize_acqf_replicates

__all__ = ["optimize_acqf_replicates"]
