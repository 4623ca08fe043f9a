r"""Models that learn the noise as well as the mean, and models of the risks of decisions."""

from botorch_risk.models.fast_marginals import FastMarginals
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.mixed_kernel import mixed_kernel
from botorch_risk.models.noise_quantile import NoiseQuantileModel
from botorch_risk.models.one_hot import one_hot_inputs
from botorch_risk.models.reductions import Reduction
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.models.robust import RobustModel
from botorch_risk.models.robust_paths import RobustPath

__all__ = [
    "FastMarginals",
    "MeanVarianceGP",
    "NoiseQuantileModel",
    "Reduction",
    "RepeatedOutcomes",
    "RobustModel",
    "RobustPath",
    "mixed_kernel",
    "one_hot_inputs",
]
