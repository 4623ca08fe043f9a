r"""The public classes and functions, and what their docstrings and their code say."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, get_args, get_origin, get_type_hints

import botorch_risk_bench
from torch import Tensor

import botorch_risk

Public = type | FunctionType

# What checks arguments for its caller, in whatever module.
CHECKS = re.compile(r"_?(check|refuse|require|as|register)_\w+")

# What any argument that is a tensor may raise, which the map of the package says for all.
SAID_ONCE = {"as_tensor", "as_floating"}

# Dimensions between backticks, or words for a shape.
SHAPE = re.compile(
    r"`[^`]*[\w|.')] x [^`]*[\w|.')]`|`(\.\.\.|batch_shape|rows|\|D\||[A-Za-z]|(n|d|num)_\w+)`"
    r"|\bscalar|\b[Aa] number\b|\bthe same shape\b|\bany shape\b|\bin the (form|shape) of\b"
)


@cache
def public_objects() -> dict[str, Any]:
    r"""Each public class and function, by its name in the outermost module that exports it."""
    found: dict[Public, str] = {}
    names = [
        each.name
        for package in (botorch_risk, botorch_risk_bench)
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    for module_name in sorted(names, key=lambda name: (name.count("."), name)):
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, Public):
                found.setdefault(value, f"{module_name}.{name}".partition(".")[2])
    return {name: value for value, name in found.items()}


def is_ours(value: Any) -> bool:
    return getattr(value, "__module__", "").partition(".")[0] in (
        "botorch_risk",
        "botorch_risk_bench",
    )


def is_written(value: Any) -> bool:
    r"""Whether it is a function in a file of ours, not made by a decorator such as `dataclass`."""
    return (
        isinstance(value, FunctionType)
        and is_ours(value)
        and value.__code__.co_filename != "<string>"
    )


def is_record(value: Any) -> bool:
    r"""Whether its fields are its arguments."""
    return dataclasses.is_dataclass(value) or hasattr(value, "_fields")


def constructors(value: Public) -> list[Any]:
    r"""What runs when it is called: the function, or what builds an instance of the class."""
    if not isinstance(value, type):
        return [value]
    found = [getattr(value, name, None) for name in ("__init__", "__post_init__")]
    return [each for each in found if is_written(each)]


def text_of(value: Public) -> str:
    r"""What a user reads: the docstring, and of a class the one of its constructor."""
    texts = [value, *(constructors(value) if isinstance(value, type) else [])]
    return "\n\n".join(inspect.cleandoc(each.__doc__ or "") for each in texts)


def section(text: str, name: str) -> str:
    r"""The body of a section such as `Returns:`, without its indent; empty if there is none."""
    bodies = re.findall(rf"^{name}:\n((?:    .*\n|\n)+)", text + "\n", flags=re.MULTILINE)
    return textwrap.dedent("\n".join(bodies))


def entries(text: str, *names: str) -> dict[str, str]:
    r"""The entries of sections such as `Args:`; `ValueError, InputDataError: ...` counts twice."""
    found: dict[str, str] = {}
    for name in names:
        body = section(text, name)
        parts = re.split(r"^([\w.]+(?:, [\w.]+)*):", body, flags=re.MULTILINE)
        for keys, entry in zip(parts[1::2], parts[2::2], strict=True):
            found |= dict.fromkeys(keys.split(", "), entry)
    return found


def holds_tensor(hint: Any) -> bool:
    r"""Whether it is a tensor, or a union or a container of some; not a function of tensors."""
    if isinstance(hint, type) and issubclass(hint, Tensor):
        return True
    if get_origin(hint) is Callable:
        return False
    return any(holds_tensor(each) for each in get_args(hint))


def hints_of(value: Public) -> dict[str, Any]:
    r"""The types of its arguments, and of what a function returns."""
    function = next(iter(constructors(value)), None)
    if is_record(value) and getattr(function, "__name__", "") != "__init__":
        hints = _hints(value)
        own = getattr(value, "_fields", None) or [each.name for each in dataclasses.fields(value)]
        return {name: hints[name] for name in own if not name.startswith("_")}
    return {} if function is None else _hints(function)


def _hints(value: Any) -> dict[str, Any]:
    r"""The types, where names that are imported for type checking alone stand for anything."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(value, localns=unknown)
        except NameError as error:
            unknown[error.name] = Any


def without_shape(value: Public) -> list[str]:
    r"""The tensors, or `return`, of which its docstring gives no shape."""
    text, missing = text_of(value), []
    documented = entries(text, "Args", "Attributes")
    for name, hint in hints_of(value).items():
        if not holds_tensor(hint):
            continue
        said = documented.get(name, "")
        if name == "return":  # or in the title
            said = section(text, "Returns") or section(text, "Yields") or text.split("\n\n")[0]
        if not SHAPE.search(said):
            missing.append(name)
    return missing


class Raises(ast.NodeVisitor):
    r"""The errors that a function raises by itself and by the helpers that it calls.

    Helpers are functions of the same module, methods of the same object, the constructor of a base
    class, and what checks arguments, in any module. With `direct`, so is all else of the package
    that the function itself calls by its name: functions and the constructors of classes.
    """

    def __init__(self, function: Any, owner: Public, seen: set[Any], direct: bool = False) -> None:
        self.function, self.owner, self.seen, self.direct = function, owner, seen, direct
        self.found: set[str] = set()

    def names(self) -> set[str]:
        self.seen.add(self.function)
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body
        assert isinstance(definition, ast.FunctionDef)
        for statement in definition.body:
            self.visit(statement)
        return self.found - {"AssertionError", "NotImplementedError"}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        r"""What is defined inside is called later."""

    def visit_Lambda(self, node: ast.Lambda) -> None:
        r"""Likewise."""

    def visit_Raise(self, node: ast.Raise) -> None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        name = ast.unparse(raised).rpartition(".")[2] if raised is not None else ""
        if name[:1].isupper():  # else it is one that was caught
            self.found.add(name)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.resolve(node.func)
        if isinstance(called, type) and self.direct and is_ours(called):
            for each in () if issubclass(called, Exception) else constructors(called):
                self.found |= Raises(each, called, set()).names()
        elif is_written(called) and called not in self.seen:
            self.found |= Raises(called, self.owner, self.seen).names()
        self.generic_visit(node)

    def resolve(self, called: ast.expr) -> Any:
        r"""What is called, if it is to be followed."""
        namespace = self.function.__globals__
        if isinstance(called, ast.Name) and called.id in SAID_ONCE:
            return None
        if isinstance(called, ast.Name):
            value = namespace.get(called.id)
            near = getattr(value, "__module__", None) == self.function.__module__
            return value if near or self.direct or CHECKS.match(called.id) else None
        if not isinstance(called, ast.Attribute):
            return None
        of = ast.unparse(called.value)
        if of == "super()":
            return self._of_base(called.attr)
        if of in ("self", "cls"):
            return inspect.getattr_static(self.owner, called.attr, None)
        if self.direct or CHECKS.match(called.attr):
            return getattr(namespace.get(of), called.attr, None)
        return None

    def _of_base(self, name: str) -> Any:
        r"""The method of that name after this one in the order of resolution."""
        order = self.owner.__mro__  # type: ignore[union-attr]
        here = next(i for i, each in enumerate(order) if self.function in vars(each).values())
        return next((vars(each)[name] for each in order[here + 1 :] if name in vars(each)), None)


def raised_by(value: Public) -> set[str]:
    r"""The names of the errors of a public function or constructor."""
    return set().union(
        *(Raises(each, value, set(), direct=True).names() for each in constructors(value))
    )
