r"""Faster fits and searches in a user's own BoTorch loop."""

from .candidates import gen_candidates_quasi_newton
from .mll_optimizer import WarmStartedFit, fit_gpytorch_mll_closed_form

__all__ = ["WarmStartedFit", "fit_gpytorch_mll_closed_form", "gen_candidates_quasi_newton"]
