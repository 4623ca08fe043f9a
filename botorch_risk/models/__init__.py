r"""Models that learn the noise as well as the mean, and models of the risks of decisions."""

from botorch_risk.models.fast_marginals import FastMarginals
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.models.standardized_gp import one_hot_inputs

__all__ = ["FastMarginals", "MeanVarianceGP", "RepeatedOutcomes", "one_hot_inputs"]
