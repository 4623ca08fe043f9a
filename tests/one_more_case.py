r"""The tests of a contract, run on a case that is not in its list: an example, or a baseline."""

import itertools
from collections.abc import Callable, Iterator
from inspect import signature
from types import ModuleType
from typing import Any

import pytest
import torch

ContractTest = Callable[..., None]


def contract_tests(contract: ModuleType) -> dict[str, ContractTest]:
    r"""The tests over the cases of an area.

    Args:
        contract: Its `test_contract` module.
    """
    return {
        name: test
        for name, test in vars(contract).items()
        if name.startswith("test_") and any("case" in axis[0] for axis in _axes(test))
    }


def run_on(test: ContractTest, case: Any, request: pytest.FixtureRequest) -> None:
    r"""Runs a test on a case, once for each combination of its further parameters."""
    for arguments in _calls(test, case):
        fixtures = signature(test).parameters.keys() - arguments.keys()
        dtype = torch.get_default_dtype()
        try:
            test(**arguments, **{each: request.getfixturevalue(each) for each in fixtures})
        except BaseException as error:
            error.add_note(f"{test.__name__}, {arguments}")
            raise
        finally:
            torch.set_default_dtype(dtype)


def _calls(test: ContractTest, case: Any) -> Iterator[dict[str, Any]]:
    largest = getattr(case, "batch_dims", None)
    rows = []
    for axis in _axes(test):
        given: list[dict[str, Any]] = []
        for row in axis:
            replaced = {**row, "case": case} if "case" in row else row
            if replaced not in given:
                given.append(replaced)
        rows.append(given)
    for parts in itertools.product(*rows):
        arguments = {name: value for part in parts for name, value in part.items()}
        if largest is None or len(arguments.get("batch_shape", ())) <= largest:
            yield arguments


def _axes(test: ContractTest) -> list[list[dict[str, Any]]]:
    r"""For each `parametrize` of a test, what it gives, by name."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args
            names = [names] if isinstance(names, str) else list(names)
            rows = [_row(value, len(names)) for value in values]
            axes.append([dict(zip(names, row, strict=True)) for row in rows])
    return axes


def _row(value: Any, length: int) -> Any:
    r"""One row of a `parametrize`, which may be a `pytest.param`."""
    if isinstance(value, type(pytest.param())):
        return value.values
    return value if length > 1 else (value,)
