r"""Nothing public is left out: every class with a contract has a case, every function a test."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

import botorch_risk
from tests.acquisition.cases import ACQUISITIONS
from tests.contracts import RepeatedData
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS
from tests.models.cases import MODELS
from tests.posterior.cases import POSTERIORS
from tests.public_objects import public_objects
from tests.risk.cases import RISK_MEASURES
from tests.strategies.cases import STRATEGIES
from tests.test_functions.cases import PROBLEMS

# Classes that obey no contract of a list: records, and parts that have tests of their own.
WITHOUT_CONTRACT = {
    "acquisition": {
        "GuaranteedWidth",  # of a confidence bound
        "MeanVarianceObjective",  # for BoTorch's Monte-Carlo acquisition functions
        "MultiOutputMeanVarianceObjective",  # likewise, of several outcomes
        "NoiseLevels",
        "NoisyChanceConstraint",  # records, in tests/acquisition/test_risk_constraint.py
        "PracticalWidth",
        "RelativeLevelSet",
        "RiskConstraint",
        "RiskObjective",  # for BoTorch's Monte-Carlo acquisition functions
        "Robust",  # a record
        "Readings",
        "Selection",
        "Status",
        "TruncatedVarianceState",
    },
    "ax": {  # for Ax, in tests/ax
        "BestArm",
        "CalibrationPlot",
        "ChosenContextAcquisition",
        "ContextDistributionPlot",
        "ContextualRiskModel",
        "Exp3Criterion",
        "NoiseSlicePlot",
        "ObservedAdapter",
        "ObservedDataset",
        "PerturbedInputsAcquisition",
        "RiskAcquisition",
        "RiskFrontierPlot",
        "RiskGenerator",
        "RiskGenerators",
    },
    "bandits": {"Exp3", "ScaledReward"},
    "environments": {
        "BoundedMarginals",  # distributions, of PyTorch's
        "KernelDensity",
        "Mixture",
        "PerturbedEnvironment",  # of two others; equal to BoTorch's in test_perturbed.py
    },
    "experiments": {"ExperimentRun", "ExperimentDefinition", "ExperimentStore"},
    "diagnostics": {"Calibration", "Coverage", "LeaveOneOut", "Verdict"},
    "fit": {
        "Estimates",
        "FitResult",
        "FitStatus",
        "FullyBayesian",
        "Hyperparameters",
        "LogMarginalLikelihood",
        "Optimum",  # a record
        "PseudoDataMarginalLogLikelihood",
        "PseudoPoints",
        "WarmStartedFit",  # an optimizer, in tests/fit/test_warm_starts.py
    },
    "metrics": {"LevelSetScores", "LevelSets", "MeanAndStandardError", "ParetoSets"},  # records
    "models": {
        "NoiseQuantileModel",
        "Reduction",  # a record
        "RepeatedOutcomes",  # a record
        "RobustModel",  # of risks; its table is in tests/acquisition/test_botorch_table.py
        "RobustPath",
    },
    "posterior": {"Marginals"},  # a record
    # records, and a wrapper of a strategy
    "strategies": {"Classification", "History", "View", "SingleExperiment"},
    "test_functions": {
        "StratifiedSplitter",
        "SurveyCost",
        "TimeOrderedSplitter",
        # Problems of one dtype, on real data or drawn from a seed, or of an extra.
        "BoostedTreesTuning",
        "CoastalTerrain",
        "GaussianProcessSample",
        "LogisticRegressionTuning",
        "LunarLanding",
        "PosteriorMeanFunctions",
        "SVMValidationError",
        # In the list, but built only where there is a table of back-tests.
        "PortfolioOptimization",
        "ValueAtRiskPortfolio",
    },
}


def packages() -> list[str]:
    return [each.name for each in pkgutil.iter_modules(botorch_risk.__path__) if each.ispkg]


def public(package: str) -> dict[str, Any]:
    module = importlib.import_module(f"botorch_risk.{package}")
    return {name: getattr(module, name) for name in module.__all__}


def may_have_a_contract(value: Any) -> bool:
    r"""Whether it is a class that can be built: no function, alias, protocol, base or error."""
    return (
        inspect.isclass(value)
        and not getattr(value, "_is_protocol", False)
        and not inspect.isabstract(value)
        and not issubclass(value, Exception)
    )


@functools.cache
def with_cases() -> set[type]:
    r"""The classes of all cases."""
    data = RepeatedData.make()
    values = torch.rand(7, 2, dtype=torch.float64)
    built = [case.build(case.model(data)) for case in ACQUISITIONS]
    built += [case.measure for case in RISK_MEASURES]
    built += [case.of(values, n_w=case.few) for case in (*ENVIRONMENTS, PERTURBATIONS)]
    built += [case.build(torch.float64) for case in PROBLEMS if not case.marks]
    for strategy in (case.build(0) for case in STRATEGIES):
        built += [strategy, strategy.space, *parts_of(strategy.method)]
    kinds = [case.kind for case in (*MODELS, *POSTERIORS)]
    return {type(each) for each in built} | set(kinds)


def parts_of(part: Any) -> list[Any]:
    r"""A method, and all that it is composed of."""
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return []
    values = [getattr(part, field.name) for field in dataclasses.fields(part)]
    return [part, *(inner for value in values for inner in parts_of(value))]


@functools.cache
def words_of_the_tests() -> set[str]:
    folder = Path(__file__).parent
    texts = [path.read_text() for path in folder.rglob("*.py") if path != Path(__file__)]
    return set(re.findall(r"\w+", "\n".join(texts)))


@pytest.mark.parametrize("package", packages())
def test_every_public_class_has_a_case(package: str) -> None:
    classes = {name for name, value in public(package).items() if may_have_a_contract(value)}
    without = WITHOUT_CONTRACT.get(package, set())
    names = {kind.__name__ for kind in with_cases()}
    assert classes - names == without  # neither more nor less: the list is not to outlive its need


@pytest.mark.parametrize("package", ["strategies", "baselines"])
def test_every_strategy_has_a_case(package: str) -> None:
    functions = {
        name: value for name, value in public(package).items() if inspect.isfunction(value)
    }
    makers = {name for name, value in functions.items() if "seeds" in signature(value).parameters}
    assert makers - {case.make.__name__ for case in STRATEGIES} == {"initial_design"} & makers


@pytest.mark.parametrize("package", packages())
def test_every_public_function_is_in_some_test(package: str) -> None:
    functions = {name for name, value in public(package).items() if inspect.isfunction(value)}
    assert functions - words_of_the_tests() == set()


@pytest.mark.parametrize("package", packages())
def test_public_names_are_there_once(package: str) -> None:
    module = importlib.import_module(f"botorch_risk.{package}")
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))


def test_public_dataclasses_are_frozen() -> None:
    r"""Replicates, rounds and stores share them."""
    kinds = [each for each in public_objects().values() if dataclasses.is_dataclass(each)]
    assert len(kinds) > 50
    assert [each for each in kinds if not each.__dataclass_params__.frozen] == []
