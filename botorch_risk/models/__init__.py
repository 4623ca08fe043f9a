r"""Models that learn the noise as well as the mean, and models of the risks of decisions."""

from .heteroscedastic import MeanVarianceGP
from .repeats import RepeatedOutcomes
from .standardized_gp import one_hot_inputs

__all__ = ["MeanVarianceGP", "RepeatedOutcomes", "one_hot_inputs"]
