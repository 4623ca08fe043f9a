r"""Faster fits in a user's own BoTorch loop; for faster searches see `botorch_risk.engine`."""

from .mll_optimizer import WarmStartedFit, fit_gpytorch_mll_closed_form

__all__ = ["WarmStartedFit", "fit_gpytorch_mll_closed_form"]
