r"""What a caller does to a tensor afterwards is the caller's: no object keeps the memory of one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from tests.limits import called, first_call
from tests.public_objects import hints_of, is_record, public_objects

# A record holds what it is given; these share on purpose.
SHARING = {
    "ax.ObservedDataset": "its data, as BoTorch's datasets do",
    "models.MeanVarianceGP": "its training inputs, as BoTorch's models do",
}
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
