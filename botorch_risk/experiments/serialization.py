r"""Tensors and plain Python values as bytes, without loss and without pickled code."""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import Any

import torch
from torch import Tensor


class StoreError(ValueError):
    r"""The file is not the store that was expected, or another process is in the way."""


def encode(value: Any) -> bytes:
    r"""The bytes of tensors and plain Python values; tensors without unused storage."""
    buffer = io.BytesIO()
    torch.save(value.detach().cpu().clone() if isinstance(value, Tensor) else value, buffer)
    return buffer.getvalue()


def decode(blob: bytes | None) -> Any:
    r"""What `encode` was given, on the CPU; None stays None.

    Raises:
        StoreError: If the bytes hold anything but tensors and plain Python values.

    Example:
        >>> decode(encode(torch.tensor([1.0, float("nan")])))
        tensor([1., nan])
    """
    if blob is None:
        return None
    try:
        return torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise StoreError(
            f"Expected stored tensors and plain Python values. Got {str(error).splitlines()[0]!r}."
        ) from error
