r"""Runs the contract laws of an area on a case that is not in its list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

Law = Callable[..., None]


def laws_of(contract: ModuleType) -> dict[str, Law]:
    r"""The laws over the cases of an area.

    Args:
        contract: Its `test_contract` module.
    """
    return {
        name: law
        for name, law in vars(contract).items()
        if name.startswith("test_") and any("case" in axis[0] for axis in _axes(law))
    }


def calls(law: Law, case: Any) -> Iterator[dict[str, Any]]:
    r"""The arguments of a law for one case, over all that it is parametrised with.

    Args:
        law: A test with `pytest.mark.parametrize` of `case` and further arguments.
        case: What takes the place of the listed cases.
    """
    largest = getattr(case, "batch_dims", None)
    rows = []
    for axis in _axes(law):
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


def _axes(law: Law) -> list[list[dict[str, Any]]]:
    r"""For each `parametrize` of a test, what it gives, by name."""
    axes = []
    for mark in getattr(law, "pytestmark", []):
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
