r"""The defaults of every public function, class and method, as `defaults.txt` stores them.

A default is part of the interface: it changes on purpose, in a diff that shows it, or not at all.
A new name needs no line. `python -m tests.defaults` writes the file again.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import botorch_risk
from botorch_risk.extras import MissingExtraError
from tests.public_objects import public_objects

FILE = Path(__file__).with_suffix(".txt")


def modules(package: ModuleType = botorch_risk) -> Iterator[ModuleType]:
    r"""The modules of a package whose extras are installed."""
    walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [each.name for each in walked if not each.name.endswith("__main__")]
    for name in names:
        with suppress(MissingExtraError):
            yield importlib.import_module(name)


def stored_defaults() -> list[str]:
    r"""What the file says."""
    return FILE.read_text(encoding="utf-8").splitlines()


def present_defaults() -> list[str]:
    r"""A line for each callable that has defaults, in the order of their names."""
    lines = []
    for place, public in public_objects().items():
        area = place.rpartition(".")[0]
        named = _of_class(public) if isinstance(public, type) else [(public.__name__, public)]
        for name, value in named:
            defaults = _defaults(value)
            if defaults:
                lines.append(f"{area}.{name}({', '.join(defaults)})")
    return sorted(lines)


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
