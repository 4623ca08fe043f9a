r"""Experiments: a problem, its strategies, and how they are judged."""

from .definition import ExperimentDefinition
from .problem import Problem, ProblemFamily, ProblemWithContexts, ProblemWithObjective
from .registry import get_experiment

__all__ = [
    "ExperimentDefinition",
    "Problem",
    "ProblemFamily",
    "ProblemWithContexts",
    "ProblemWithObjective",
    "get_experiment",
]
