r"""What an object keeps, and which protocols recognise it, where its example is called again."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import Module

from tests.calls import called, first_call
from tests.defaults import modules
from tests.public_objects import hints_of, is_record, public_objects

# A record holds what it is given; these share on purpose.
SHARING = {"models.MeanVarianceGP": "its training inputs, as BoTorch's models do"}

CLASSES = {
    name: value
    for name, value in public_objects().items()
    if isinstance(value, type) and not is_record(value) and not inspect.isabstract(value)
    if not issubclass(value, Exception)
}


class Keeper(nn.Module):
    r"""What the test is about.

    Example:
        >>> kept = Keeper(torch.ones(3), torch.ones(2, dtype=torch.double)).kept
    """

    def __init__(self, point: Tensor, weight: float | Tensor) -> None:
        super().__init__()
        self.kept = [{"point": point[1:]}]
        self.register_buffer("weight", torch.as_tensor(weight, dtype=torch.double))


def tensors_in(value: Any, seen: set[int]) -> Iterator[Tensor]:
    r"""All tensors that an object leads to, through its attributes and containers."""
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
        return
    if isinstance(value, list | tuple):
        parts = value
    else:
        parts = (value if isinstance(value, dict) else getattr(value, "__dict__", {})).values()
    for part in parts:
        yield from tensors_in(part, seen)


def shared_arguments(value: type) -> set[str]:
    r"""The arguments of the call in its example whose memory the object keeps.

    A number that may as well be a tensor is given as one.
    """
    hints = hints_of(value)
    arguments = first_call(value) or {}
    for name, argument in arguments.items():
        if isinstance(argument, int | float) and Tensor in get_args(hints.get(name)):
            arguments[name] = torch.tensor(argument, dtype=torch.double)
    given = {
        each.untyped_storage().data_ptr(): name
        for name, each in arguments.items()
        if isinstance(each, Tensor)
    }
    if not given:
        return set()
    kept = tensors_in(called(value, arguments), set())
    return {given[pointer] for each in kept if (pointer := address_of(each)) in given}


def address_of(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CLASSES.keys() - SHARING))
def test_no_memory_of_an_argument_is_kept(name: str) -> None:
    assert not shared_arguments(CLASSES[name])


def test_what_is_kept_is_found_wherever_it_is() -> None:
    assert shared_arguments(Keeper) == {"point", "weight"}


def test_what_shares_on_purpose_does() -> None:
    for name in SHARING:
        assert shared_arguments(CLASSES[name])


def protocols() -> Iterator[type]:
    for module in modules():
        for kind in vars(module).values():
            if getattr(kind, "_is_runtime_protocol", False) and kind.__module__ == module.__name__:
                yield kind


PROTOCOLS = list(protocols())

MODULES = {name: kind for name, kind in CLASSES.items() if issubclass(kind, Module)}


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
    arguments = first_call(MODULES[name])
    if not arguments:  # without an example
        return
    value = called(MODULES[name], arguments)
    assert {each.__name__: hidden(value, each) for each in PROTOCOLS if hidden(value, each)} == {}
