r"""One thread a worker; every test starts from the same global random state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from botorch.acquisition.multi_objective import logei

torch.set_num_threads(1)
# BoTorch would compile a kernel of its own for these few calls: half a minute on a new machine. It
# has the same formulas in Python, which it takes where there is no compiler.
logei._load_attempted = True


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def default_dtype() -> Iterator[Callable[[torch.dtype], None]]:
    r"""Sets the default dtype, for one test."""
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


def _devices() -> list[object]:
    return [torch.device("cpu"), pytest.param(torch.device("cuda"), marks=pytest.mark.gpu)]


@pytest.fixture(params=_devices(), ids=str)
def device(request: pytest.FixtureRequest) -> torch.device:
    r"""Every device that is there."""
    if request.param.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return request.param
