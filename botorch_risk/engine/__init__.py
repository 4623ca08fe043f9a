r"""Exact Gaussian processes, batched: moments, fits and maximisation, on a CPU or a GPU.

The engine knows no risk, no environment and no strategy, and serves any exact GP of BoTorch. This
page is its door: no other part of the package imports from a file in here.
"""

from .fit.exact_gp import fit_exact_gp
from .fit.marginal_likelihood import Hyperparameters, LogMarginalLikelihood, log_marginal_likelihood
from .fit.results import FitResult, FitStatus, Optimum, warn_of_failed_fits
from .optim.candidates import gen_candidates_quasi_newton
from .optim.multistart import optimize_acqf_replicates
from .optim.pointwise import PointwiseAcquisition
from .posterior.domain import DomainPosterior
from .posterior.fast_marginals import FastMarginals
from .posterior.marginals import MarginalPredictor, Marginals
from .projected_bfgs import minimize_rows

__all__ = [
    "DomainPosterior",
    "FastMarginals",
    "FitResult",
    "FitStatus",
    "Hyperparameters",
    "LogMarginalLikelihood",
    "MarginalPredictor",
    "Marginals",
    "Optimum",
    "PointwiseAcquisition",
    "fit_exact_gp",
    "gen_candidates_quasi_newton",
    "log_marginal_likelihood",
    "minimize_rows",
    "optimize_acqf_replicates",
    "warn_of_failed_fits",
]
