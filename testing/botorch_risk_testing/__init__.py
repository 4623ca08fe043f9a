r"""Checks of parts that you wrote yourself, against the laws that the package's own parts obey.

Each check builds the part, runs every applicable law, and raises an error that names the broken
laws with the expected and the found values:

    check_acquisition(lambda model: MyAcquisition(model))

It needs no test framework, and takes seconds. The laws of a kind are in its module, as `LAWS`.
"""

from .acquisition import check_acquisition
from .data import RepeatedData
from .environments import check_environment
from .laws import LawsBrokenError, Report
from .models import check_model
from .problems import check_test_problem
from .risk_measures import check_risk_measure

__version__ = "0.1.0"

__all__ = [
    "LawsBrokenError",
    "RepeatedData",
    "Report",
    "check_acquisition",
    "check_environment",
    "check_model",
    "check_risk_measure",
    "check_test_problem",
]
