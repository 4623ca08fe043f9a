r"""The devices that are there, and the one that the present test runs on.

A test that asks for `device`, or that is marked `every_device`, runs on each of them: on the CPU,
on a GPU if there is one, under the mark `gpu`, and else on the second device of
`tests/second_device.py`. Such a test makes its tensors on `home()`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.covering import by_hash
from tests.second_device import SIM

_CPU = torch.device("cpu")
_present = [_CPU]


def available_devices(gpu: bool) -> list[object]:
    r"""The devices as parameters of a test, each with its mark."""
    cuda = pytest.param(torch.device("cuda:0"), marks=pytest.mark.gpu)
    return [_CPU, cuda if gpu else SIM]


DEVICES = available_devices(torch.cuda.is_available())


def home() -> torch.device:
    r"""Where the present test makes its tensors."""
    return _present[-1]


@contextmanager
def at(device: torch.device) -> Iterator[None]:
    r"""Makes a device the home of what the block makes."""
    _present.append(device)
    try:
        yield
    finally:
        _present.pop()


def parametrize(metafunc: pytest.Metafunc) -> None:
    r"""Runs a test on every device if it asks for one."""
    arguments = metafunc.definition.obj.__code__.co_varnames
    asks = "device" in arguments[: metafunc.definition.obj.__code__.co_argcount]
    if asks or metafunc.definition.get_closest_marker("every_device"):
        metafunc.parametrize("device", DEVICES, indirect=True, ids=str)


def mark_most_of_the_second_device_slow(items: Iterable[pytest.Item]) -> None:
    r"""Keeps one test of each kind of case, and one row of each test without cases."""
    of_case: dict[str, pytest.Item] = {}
    there = [item for item in items if _parameters(item).get("device") == SIM]
    there = [item for item in there if not item.get_closest_marker("slow")]
    for item in sorted(there, key=lambda item: by_hash(item.nodeid)):
        for case in _cases(_parameters(item)) or [item.nodeid.partition("[")[0]]:
            of_case.setdefault(case, item)
    kept = set(map(id, of_case.values()))
    for item in there:
        if id(item) not in kept:
            item.add_marker(pytest.mark.slow)


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _cases(parameters: dict[str, object]) -> list[str]:
    r"""The cases and laws among the parameters of a test, by `kind` if there is one, or name."""
    return [
        f"{type(value).__name__} {getattr(value, 'kind', None) or value.name}"
        for value in parameters.values()
        if type(value).__name__.endswith(("Case", "Cell", "Law")) and hasattr(value, "name")
    ]
