r"""Models that learn the noise as well as the mean."""

from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes

__all__ = ["MeanVarianceGP", "RepeatedOutcomes"]
