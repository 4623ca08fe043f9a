r"""Models that learn the noise as well as the mean, and fast marginals of any model."""

from botorch_risk.models.domain import DomainPosterior
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.marginals import MarginalPredictor, Marginals
from botorch_risk.models.repeats import RepeatedOutcomes

__all__ = [
    "DomainPosterior",
    "MarginalPredictor",
    "Marginals",
    "MeanVarianceGP",
    "RepeatedOutcomes",
]
