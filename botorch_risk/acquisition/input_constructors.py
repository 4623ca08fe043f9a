r"""Register our acquisition functions with BoTorch's `get_acqf_input_constructor`, and so with Ax.

BoTorch's registry takes a third of a second to import (it brings SciPy's statistics), and a loop
that builds its acquisition function itself never needs it. So each class is registered at once if
the registry has been imported, and otherwise when anyone first imports it.
"""

import inspect
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

REGISTRY = "botorch.acquisition.input_constructors"
Kind = TypeVar("Kind", bound=type)
_waiting: dict[type, Callable[..., dict[str, Any]]] = {}


def register_input_constructor(kind: type, construct: Callable[..., dict[str, Any]]) -> None:
    r"""Tell BoTorch how to build an acquisition function from Ax's arguments.

    `construct` is called with a `model` and any options by name, and returns the arguments of
    `kind`.
    """
    if REGISTRY in sys.modules:
        _register(sys.modules[REGISTRY], kind, construct)
    else:
        _waiting[kind] = construct


def construct_from_own_arguments(kind: Kind) -> Kind:
    r"""Class decorator: the input constructor returns the arguments of `__init__` themselves."""
    own = inspect.signature(kind)

    def construct_inputs(**arguments: Any) -> dict[str, Any]:
        bound = own.bind(**arguments)
        bound.apply_defaults()
        return dict(bound.arguments)

    construct_inputs.__signature__ = own  # type: ignore[attr-defined]
    construct_inputs.__name__ = f"construct_inputs_of_{kind.__name__}"
    register_input_constructor(kind, construct_inputs)
    return kind


def _register(registry: ModuleType, kind: type, construct: Callable[..., dict[str, Any]]) -> None:
    registry.acqf_input_constructor(kind)(construct)


class _AfterTheRegistry(MetaPathFinder):
    r"""Find BoTorch's registry as Python would, and register the waiting classes after it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != REGISTRY:
            return None
        sys.meta_path.remove(self)  # the search below does not come here again
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


class _Registering(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        while _waiting:
            _register(module, *_waiting.popitem())


if REGISTRY not in sys.modules:
    sys.meta_path.insert(0, _AfterTheRegistry())
