r"""Predictions of any exact GP: fast marginals, and the joint posterior over a finite domain."""

from .domain import DomainPosterior
from .marginals import MarginalPredictor, Marginals

__all__ = ["DomainPosterior", "MarginalPredictor", "Marginals"]
