r"""One thread a worker; every test and every example starts from the same global random state."""

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
