r"""Experiments over many seeds that can be stopped at any moment, resumed and plotted.

Plots, progress bars and the command line need the extra: `pip install
'botorch_risk[experiments]'`.
"""

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.loop import run_strategy
from botorch_risk.experiments.problem import Problem, ProblemFamily, ProblemWithObjective
from botorch_risk.experiments.registry import ExperimentDefinition, get_experiment, register
from botorch_risk.experiments.serialization import StoreError
from botorch_risk.experiments.store import ExperimentStore

__all__ = [
    "Campaign",
    "ExperimentDefinition",
    "ExperimentStore",
    "Problem",
    "ProblemFamily",
    "ProblemWithObjective",
    "StoreError",
    "get_experiment",
    "register",
    "run_strategy",
]
