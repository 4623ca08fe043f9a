r"""Models that learn the noise as well as the mean, and models of the risks of decisions."""

from .fast_marginals import FastMarginals
from .heteroscedastic import MeanVarianceGP
from .repeats import RepeatedOutcomes
from .standardized_gp import one_hot_inputs

__all__ = ["FastMarginals", "MeanVarianceGP", "RepeatedOutcomes", "one_hot_inputs"]
