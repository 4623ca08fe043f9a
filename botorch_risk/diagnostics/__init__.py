r"""Check a model: predictions of left-out rows, their coverage, a picture and a verdict.

`leave_one_out` only needs the model; `calibration` also needs the function, as in a simulation.
"""

from .box import BoxCheck
from .calibration import Calibration, calibration
from .leave_one_out import Coverage, LeaveOneOut, Verdict, coverage, leave_one_out, verdict
from .picture import plot_leave_one_out

__all__ = [
    "BoxCheck",
    "Calibration",
    "Coverage",
    "LeaveOneOut",
    "Verdict",
    "calibration",
    "coverage",
    "leave_one_out",
    "plot_leave_one_out",
    "verdict",
]
