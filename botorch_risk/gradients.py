r"""Refusal of PyTorch's inference mode by functions that need gradients."""

from __future__ import annotations

import torch
from botorch.exceptions.errors import UnsupportedError


def require_gradients(name: str) -> None:
    r"""Refuses PyTorch's inference mode, in which no gradient can be computed.

    `torch.no_grad` is no obstacle: gradients are switched on where they are needed.

    Args:
        name: The name of the function that needs them.

    Raises:
        UnsupportedError: In inference mode.
    """
    if torch.is_inference_mode_enabled():
        raise UnsupportedError(
            f"Expected gradients, which {name} needs. Got `torch.inference_mode()`; use "
            "`torch.no_grad()`, or leave it for this call."
        )
