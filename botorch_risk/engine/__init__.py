r"""Exact Gaussian processes, batched: moments, fits and maximisation, on a CPU or a GPU.

The engine knows no risk, no environment and no strategy, and serves any exact GP of BoTorch. This
page is its door: no other part of the package imports from a file in here.
"""

from .fit.exact_gp import fit_exact_gp, fit_to_data
from .fit.fit_objective import FitObjective
from .fit.objective import MarginalLikelihoodObjective
from .fit.parameters import NotInClosedFormError
from .fit.results import FitResult, Optimum
from .fit.starts import Starts
from .optim.candidates import gen_candidates_quasi_newton
from .optim.multistart import optimize_acqf_replicates
from .optim.pointwise import PointwiseAcquisition
from .posterior.belief import Belief
from .posterior.domain import DomainPosterior
from .posterior.fast_marginals import FastMarginals
from .posterior.process import Process
from .projected_bfgs import minimize_rows

__all__ = [
    "Belief",
    "DomainPosterior",
    "FastMarginals",
    "FitObjective",
    "FitResult",
    "MarginalLikelihoodObjective",
    "NotInClosedFormError",
    "Optimum",
    "PointwiseAcquisition",
    "Process",
    "Starts",
    "fit_exact_gp",
    "fit_to_data",
    "gen_candidates_quasi_newton",
    "minimize_rows",
    "optimize_acqf_replicates",
]
