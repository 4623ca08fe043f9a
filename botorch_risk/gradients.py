r"""Where gradients are needed, and PyTorch is told not to compute any."""

from __future__ import annotations

import torch
from botorch.exceptions.errors import UnsupportedError


def require_gradients(name: str) -> None:
    r"""Refuses PyTorch's inference mode, in which no gradient can be had.

    `torch.no_grad` is no obstacle: gradients are switched on where they are needed.

    Args:
        name: Of the function that needs them.

    Raises:
        UnsupportedError: In inference mode.
    """
    if torch.is_inference_mode_enabled():
        raise UnsupportedError(
            f"Expected gradients, which {name} needs. Got `torch.inference_mode()`; use "
            "`torch.no_grad()`, or leave it for this call."
        )
