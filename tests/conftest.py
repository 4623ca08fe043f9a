r"""The dtype and the devices that tests ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch


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


def _devices() -> list[object]:
    return [torch.device("cpu"), pytest.param(torch.device("cuda"), marks=pytest.mark.gpu)]


@pytest.fixture(params=_devices(), ids=str)
def device(request: pytest.FixtureRequest) -> torch.device:
    r"""Every device that is there."""
    if request.param.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return request.param
