r"""The public classes and functions, and what their docstrings say."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

from torch import Tensor

import botorch_risk
from botorch_risk.extras import MissingExtraError

Public = type | FunctionType

# Dimensions between backticks, or words for a shape.
SHAPE = re.compile(
    r"`[^`]*[\w|.')] x [^`]*[\w|.')]`|`(\.\.\.|batch_shape|rows|\|D\||[A-Za-z]|(n|d|num)_\w+)`"
    r"|\bscalar|\b[Aa] number\b|\bthe same shape\b|\bany shape\b|\bin the (form|shape) of\b"
)


@cache
def public_objects(package: ModuleType = botorch_risk) -> dict[str, Any]:
    r"""Each public class and function, by its name in the outermost module that exports it."""
    found: dict[Public, str] = {}
    walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [each.name for each in walked]
    for module_name in sorted(names, key=lambda name: (name.count("."), name)):
        for name, value in exports_of(module_name):
            if isinstance(value, Public):
                found.setdefault(value, f"{module_name}.{name}".partition(".")[2])
    return {name: value for value, name in found.items()}


def exports_of(module_name: str) -> Iterator[tuple[str, Any]]:
    r"""What a module exports; nothing if its extra is not installed."""
    with suppress(MissingExtraError):
        module = importlib.import_module(module_name)
        yield from ((name, getattr(module, name)) for name in getattr(module, "__all__", ()))


def is_ours(value: Any) -> bool:
    r"""Whether it is of the plugin or the bench."""
    return getattr(value, "__module__", "").startswith("botorch_risk")


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
    r"""The tensors that its docstring describes, or `return`, without a shape."""
    text = text_of(value)
    said = entries(text, "Args", "Attributes")
    said["return"] = section(text, "Returns") or section(text, "Yields")
    tensors = [name for name, hint in hints_of(value).items() if holds_tensor(hint)]
    return [name for name in tensors if said.get(name) and not SHAPE.search(said[name])]


def parameters_of(value: Any) -> set[str]:
    r"""What a docstring may list under `Args:`, for a protocol those of its call."""
    if getattr(value, "_is_protocol", False):
        return set(inspect.signature(value.__call__).parameters)
    return set(inspect.signature(value).parameters)
