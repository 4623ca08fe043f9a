from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.gradients import require_gradients


def test_only_the_inference_mode_is_in_the_way() -> None:
    require_gradients("a fit")
    with torch.no_grad():
        require_gradients("a fit")
    with (
        torch.inference_mode(),
        pytest.raises(UnsupportedError, match=r"Expected gradients, which a fit needs\. Got"),
    ):
        require_gradients("a fit")
