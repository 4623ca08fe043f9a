r"""A protocol that is checked at runtime recognises the same objects in every version of Python.

Python 3.11 asks `hasattr`. From 3.12 on it looks a member up statically, so that what a module of
PyTorch keeps as its buffer, parameter or submodule is not found.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from torch.nn import Module

from tests.defaults import modules
from tests.limits import called, first_call
from tests.test_ownership import CLASSES


def protocols() -> Iterator[type]:
    for module in modules():
        for kind in vars(module).values():
            if getattr(kind, "_is_runtime_protocol", False) and kind.__module__ == module.__name__:
                yield kind


PROTOCOLS = list(protocols())
MODULES = {
    name: kind for name, kind in CLASSES.items() if issubclass(kind, Module) and first_call(kind)
}


def members(protocol: type) -> list[str]:
    r"""The names that it asks for."""
    found = {**getattr(protocol, "__annotations__", {}), **vars(protocol)}
    return [name for name in found if not name.startswith("_") or name == "__call__"]


def hidden(value: Any, protocol: type) -> list[str]:
    r"""The members that an object has, but not for Python 3.12."""
    missing = object()
    names = members(protocol)
    methods = [name for name in names if callable(getattr(protocol, name, None))]
    if not all(hasattr(value, name) for name in names):
        return []
    if not all(callable(getattr(value, name)) for name in methods):  # something else of this name
        return []
    return [name for name in names if inspect.getattr_static(value, name, missing) is missing]


def test_protocols_are_found() -> None:
    assert {"ConfidenceBound", "PointwiseAcquisition", "Space"} <= {p.__name__ for p in PROTOCOLS}
    assert all(members(protocol) for protocol in PROTOCOLS)


@pytest.mark.parametrize("name", MODULES)
def test_an_object_is_recognised_by_every_python(name: str) -> None:
    value = called(MODULES[name], first_call(MODULES[name]) or {})
    assert {each.__name__: hidden(value, each) for each in PROTOCOLS if hidden(value, each)} == {}
