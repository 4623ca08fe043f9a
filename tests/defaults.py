r"""The defaults of every public function, class and method, as `defaults.txt` stores them.

A default is part of the interface: it changes on purpose, in a diff that shows it, or not at all.
`python -m tests.defaults` writes the file again.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import botorch_risk_bench

import botorch_risk

FILE = Path(__file__).with_suffix(".txt")
PACKAGES = (botorch_risk, botorch_risk_bench)


def modules() -> Iterator[ModuleType]:
    r"""The modules of the plugin and of the bench."""
    for package in PACKAGES:
        walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        names = [each.name for each in walked if not each.name.endswith("__main__")]
        yield from map(importlib.import_module, names)


def place_of(module: ModuleType) -> str:
    r"""The name of a module within its package."""
    return module.__name__.partition(".")[2]


def stored_defaults() -> list[str]:
    r"""What the file says."""
    return FILE.read_text(encoding="utf-8").splitlines()


def present_defaults() -> list[str]:
    r"""A line for each callable that has defaults, in the order of their names."""
    lines = []
    for module in modules():
        for name, value in _callables(module):
            defaults = _defaults(value)
            if defaults:
                lines.append(f"{place_of(module)}.{name}({', '.join(defaults)})")
    return sorted(lines)


def _callables(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    r"""Public functions that a module defines, and constructors and methods of its classes."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            yield from _of_class(value)
        elif callable(value):
            yield name, value


def _of_class(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    r"""The constructor and methods of a class, its own or inherited from the package."""
    first = next(each for each in kind.__mro__ if {"__init__", "__new__"} & vars(each).keys())
    if first.__module__.startswith("botorch_risk") and not issubclass(kind, Enum):
        yield kind.__name__, kind
    own = [each for each in kind.__mro__ if each is kind or each.__name__.startswith("_")]
    for name in sorted({name for each in own for name in vars(each) if not name.startswith("_")}):
        method = getattr(kind, name)
        is_routine = inspect.isfunction(method) or inspect.ismethod(method)
        if is_routine and "." in method.__qualname__:  # and no default of a field
            yield f"{kind.__name__}.{name}", method


def _defaults(value: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(value).parameters.values()
    return [
        f"{each.name}={getattr(each.default, '__qualname__', None) or repr(each.default)}"
        for each in parameters
        if each.default is not each.empty
    ]


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in present_defaults()), encoding="utf-8")
