r"""Predictions of any exact GP: fast marginals, and the joint posterior over a finite domain."""

from botorch_risk.posterior.domain import DomainPosterior
from botorch_risk.posterior.marginals import MarginalPredictor, Marginals

__all__ = ["DomainPosterior", "MarginalPredictor", "Marginals"]
