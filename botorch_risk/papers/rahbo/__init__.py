r"""RAHBO: maximise mean minus noise variance, both learnt from repeats [Makarova2021rahbo]_."""

from .strategy import MeanVarianceSearch, Weights, rahbo, rahbo_us
from .widths import heteroscedastic_beta, information_gain, information_of_readings

__all__ = [
    "MeanVarianceSearch",
    "Weights",
    "heteroscedastic_beta",
    "information_gain",
    "information_of_readings",
    "rahbo",
    "rahbo_us",
]
