r"""Experiments: a problem, the strategies that it is run with, and how they are judged."""

from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import (
    Problem,
    ProblemFamily,
    ProblemWithContexts,
    ProblemWithObjective,
)
from botorch_risk_bench.experiments.registry import get_experiment

__all__ = [
    "ExperimentDefinition",
    "Problem",
    "ProblemFamily",
    "ProblemWithContexts",
    "ProblemWithObjective",
    "get_experiment",
]
