r"""Faster fits and searches in a user's own BoTorch loop."""

from botorch_risk.faster.candidates import gen_candidates_quasi_newton
from botorch_risk.faster.mll_optimizer import WarmStartedFit, fit_gpytorch_mll_closed_form

__all__ = ["WarmStartedFit", "fit_gpytorch_mll_closed_form", "gen_candidates_quasi_newton"]
