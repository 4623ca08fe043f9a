r"""Runs the contract tests of an area on a case that is not in its list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

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


def calls(test: ContractTest, case: Any) -> Iterator[dict[str, Any]]:
    r"""The arguments of a test for one case, over all that it is parametrised with.

    Args:
        test: With `pytest.mark.parametrize` of `case` and further arguments.
        case: What takes the place of the listed cases.
    """
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
