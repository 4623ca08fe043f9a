r"""Models that learn the noise as well as the mean, and models of the risks of decisions."""

from .heteroscedastic import MeanVarianceGP
from .mean_variance_samples import MeanVarianceSamples
from .repeats import RepeatedOutcomes
from .risk_posterior import Reduction
from .robust_model import RobustModel
from .sampled_gp import SampledGP
from .scaled_gp import scaled_gp
from .standardized_gp import one_hot_inputs

__all__ = [
    "MeanVarianceGP",
    "MeanVarianceSamples",
    "Reduction",
    "RepeatedOutcomes",
    "RobustModel",
    "SampledGP",
    "one_hot_inputs",
    "scaled_gp",
]
