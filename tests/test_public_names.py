r"""Nothing public is left out: every class of a contract has a case, every function a test."""

import dataclasses
import functools
import inspect
from inspect import signature
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction

from botorch_risk.risk.measure import RiskMeasure
from botorch_risk.strategies.method import Method
from tests.acquisition.cases import ACQUISITIONS
from tests.defaults import modules
from tests.engine.posterior.cases import POSTERIORS
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS
from tests.models.cases import MODELS
from tests.public_objects import public_objects
from tests.risk.cases import RISK_MEASURES
from tests.strategies.cases import STRATEGIES
from tests.test_functions.cases import PROBLEMS

# The bases whose contracts run over lists of cases.
WITH_CONTRACT = (AcquisitionFunction, RiskMeasure, Method)


def can_be_built(value: Any) -> bool:
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
    values = torch.rand(7, 2, dtype=torch.float64)
    built = [case.made() for case in ACQUISITIONS]
    built += [case.measure for case in RISK_MEASURES]
    built += [case.of(values, n_w=case.few) for case in (*ENVIRONMENTS, PERTURBATIONS)]
    built += [row.values[0].build(torch.float64) for row in PROBLEMS if not row.marks]
    for strategy in (case.build(0) for case in STRATEGIES):
        built += [strategy, strategy.space, *parts_of(strategy.method)]
    built += [case.made()[0] for case in (*MODELS, *POSTERIORS)]
    return {type(each) for each in built}


def parts_of(part: Any) -> list[Any]:
    r"""A method, and all that it is composed of."""
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return []
    values = [getattr(part, field.name) for field in dataclasses.fields(part)]
    return [part, *(inner for value in values for inner in parts_of(value))]


def test_every_class_of_a_contract_has_a_case() -> None:
    classes = {each for each in public_objects().values() if can_be_built(each)}
    under_contract = {each for each in classes if issubclass(each, WITH_CONTRACT)}
    assert len(under_contract) > 20
    assert under_contract - with_cases() == set()


def test_every_strategy_has_a_case() -> None:
    makers = {
        name.rpartition(".")[2]
        for name, value in public_objects().items()
        if name.startswith("strategies.") and inspect.isfunction(value)
        if "seeds" in signature(value).parameters
    }
    assert makers - {case.make.__name__ for case in STRATEGIES} == {"initial_design"}


def test_public_names_are_there_once() -> None:
    for module in modules():
        names = getattr(module, "__all__", ())
        assert len(set(names)) == len(names)
        assert set(names) <= set(dir(module))


def test_public_dataclasses_are_frozen() -> None:
    r"""Replicates, rounds and stores share them."""
    kinds = [each for each in public_objects().values() if dataclasses.is_dataclass(each)]
    assert len(kinds) > 50
    assert [each for each in kinds if not each.__dataclass_params__.frozen] == []
