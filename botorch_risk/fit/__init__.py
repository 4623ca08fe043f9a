r"""Closed-form fits of exact Gaussian processes, all replicates at once.

`fit_exact_gp` fits a BoTorch model in place; `log_marginal_likelihood` is the algebra under it,
for other losses to build on.
"""

from botorch_risk.fit.exact_gp import FitResult, FitStatus, fit_exact_gp
from botorch_risk.fit.marginal_likelihood import (
    Hyperparameters,
    LogMarginalLikelihood,
    log_marginal_likelihood,
)

__all__ = [
    "FitResult",
    "FitStatus",
    "Hyperparameters",
    "LogMarginalLikelihood",
    "fit_exact_gp",
    "log_marginal_likelihood",
]
