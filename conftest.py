r"""One thread per worker unless OMP_NUM_THREADS says otherwise; one random state for every test.

A test in which BoTorch would compile a kernel fails: whoever runs that code waits for a minute.
"""

import os

import pytest
import torch
from botorch.acquisition.multi_objective import logei

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
_load_kernel = logei._try_load_fused_kernel


def _refuse_to_compile() -> None:
    if not logei._load_attempted:
        pytest.fail("Expected `without_compiling` around a hypervolume improvement. Got none.")
    _load_kernel()


logei._try_load_fused_kernel = _refuse_to_compile


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
