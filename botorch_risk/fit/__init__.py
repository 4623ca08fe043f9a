r"""Closed-form fits of exact Gaussian processes, all replicates at once.

`fit_exact_gp` fits a BoTorch model in place, and `fit_pseudo_data` does so without the bias of
adaptively chosen data; both use `log_marginal_likelihood`. The wing `faster` uses the same fit from
within BoTorch's `fit_gpytorch_mll`.
"""

from .estimators import Estimator, FullyBayesian, MaximumAPosteriori, PseudoData
from .exact_gp import fit_exact_gp
from .marginal_likelihood import Hyperparameters, LogMarginalLikelihood, log_marginal_likelihood
from .priors import set_gamma_priors
from .pseudo_data import Estimates, PseudoDataMarginalLogLikelihood, compare_losses, fit_pseudo_data
from .pseudo_points import PseudoPoints, pseudo_points
from .results import FitResult, FitStatus, Optimum, warn_of_failed_fits

__all__ = [
    "Estimates",
    "Estimator",
    "FitResult",
    "FitStatus",
    "FullyBayesian",
    "Hyperparameters",
    "LogMarginalLikelihood",
    "MaximumAPosteriori",
    "Optimum",
    "PseudoData",
    "PseudoDataMarginalLogLikelihood",
    "PseudoPoints",
    "compare_losses",
    "fit_exact_gp",
    "fit_pseudo_data",
    "log_marginal_likelihood",
    "pseudo_points",
    "set_gamma_priors",
    "warn_of_failed_fits",
]
