r"""Experiments over many seeds that can be stopped at any moment, resumed and plotted.

Names are imported when they are first used, so that the command line can show its help without
loading PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_risk_bench.experiments.definition import ExperimentDefinition
    from botorch_risk_bench.experiments.experiment_run import ExperimentRun
    from botorch_risk_bench.experiments.loop import run_strategy
    from botorch_risk_bench.experiments.problem import (
        Problem,
        ProblemFamily,
        ProblemWithContexts,
        ProblemWithObjective,
    )
    from botorch_risk_bench.experiments.registry import get_experiment
    from botorch_risk_bench.experiments.serialization import StoreError
    from botorch_risk_bench.experiments.store import ExperimentStore

__all__ = [
    "ExperimentDefinition",
    "ExperimentRun",
    "ExperimentStore",
    "Problem",
    "ProblemFamily",
    "ProblemWithContexts",
    "ProblemWithObjective",
    "StoreError",
    "get_experiment",
    "run_strategy",
]

_MODULES = {
    "ExperimentRun": "experiment_run",
    "ExperimentDefinition": "definition",
    "ExperimentStore": "store",
    "Problem": "problem",
    "ProblemFamily": "problem",
    "ProblemWithContexts": "problem",
    "ProblemWithObjective": "problem",
    "StoreError": "serialization",
    "get_experiment": "registry",
    "run_strategy": "loop",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
