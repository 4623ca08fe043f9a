r"""The dtype and the devices of the tests, and what a source distribution leaves out."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests import covering, devices

# Tests of the repository read files that a source distribution lacks.
_OF_THE_REPOSITORY = (
    "contributing",
    "docs",
    "docstrings",
    "documented_commands",
    "imports",
    "layout",
    "readme",
    "tutorials",
    "two_trees",
)
if not (Path(__file__).parents[1] / "Makefile").exists():
    collect_ignore = [f"test_{name}.py" for name in _OF_THE_REPOSITORY]


@pytest.fixture
def default_dtype() -> Iterator[Callable[[torch.dtype], None]]:
    r"""Sets the default dtype, for one test."""
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def the_default_dtype_stays() -> Iterator[None]:
    r"""Fails the test that leaves another default dtype, and not the ones after it."""
    before = torch.get_default_dtype()
    yield
    after = torch.get_default_dtype()
    torch.set_default_dtype(before)
    assert after == before


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    r"""The device that a test runs on, which is the home of what it makes."""
    present = getattr(request, "param", torch.device("cpu"))
    with devices.at(present):
        yield present


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    devices.parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    covering.mark_the_rest_slow(items)
    devices.mark_most_of_the_second_device_slow(items)
