r"""Estimate hyperparameters by a fit to the data, by samples of their posterior, or by pseudo-data.

`fit_pseudo_data` fits a model without the bias of adaptively chosen data; estimators put each way
behind one interface. The ordinary fit, `fit_exact_gp`, is the engine's.
"""

from .estimators import Estimator, FullyBayesian, MaximumAPosteriori, PseudoData
from .gamma_priors import set_gamma_priors
from .pseudo_data import Estimates, PseudoDataMarginalLogLikelihood, compare_losses, fit_pseudo_data
from .pseudo_points import pseudo_points

__all__ = [
    "Estimates",
    "Estimator",
    "FullyBayesian",
    "MaximumAPosteriori",
    "PseudoData",
    "PseudoDataMarginalLogLikelihood",
    "compare_losses",
    "fit_pseudo_data",
    "pseudo_points",
    "set_gamma_priors",
]
