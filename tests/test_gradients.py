r"""Functions that need gradients, in PyTorch's modes without them."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.gradients import require_gradients


def test_gradients_can_be_switched_on_in_no_grad_but_not_in_inference_mode() -> None:
    require_gradients("fit")
    with torch.no_grad():
        require_gradients("fit")
    with (
        torch.inference_mode(),
        pytest.raises(UnsupportedError, match=r"Expected gradients, which fit needs"),
    ):
        require_gradients("fit")
