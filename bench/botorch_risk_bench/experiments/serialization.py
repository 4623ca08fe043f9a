r"""Tensors and plain Python values as bytes, without loss and without pickled code.

Each value carries a checksum of its bytes, so that what is decoded is what was encoded.
"""

from __future__ import annotations

import hashlib
import io
import sys
from typing import Any

import torch
from torch import Tensor

_CHECKSUM_BYTES = 16


class StoreError(ValueError):
    r"""The file is not the store that was expected, or another process is in the way.

    Example:
        >>> from botorch_risk_bench.experiments import ExperimentStore
        >>> ExperimentStore("missing.sqlite")
        Traceback (most recent call last):
        botorch_risk_bench.experiments.serialization.StoreError: Expected missing.sqlite to exist...
    """


class NoResultsError(StoreError):
    r"""The store is intact, but what is asked for has not been played, or has no true objective."""


def checksum(*values: bytes | str | float | int | None) -> bytes:
    r"""The checksum of a sequence of values, BLAKE2b of their types, lengths and bytes.

    Args:
        values: What a column of a SQLite table can hold.

    Returns:
        16 bytes.

    Example:
        >>> checksum("ab", "c") == checksum("a", "bc"), checksum(1) == checksum(1.0)
        (False, False)
    """
    digest = hashlib.blake2b(digest_size=_CHECKSUM_BYTES)
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        digest.update(f"{type(value).__name__} {len(data)} ".encode())
        digest.update(data)
    return digest.digest()


def encode(value: Any) -> bytes:
    r"""The bytes of tensors and plain Python values; tensors without unused storage."""
    buffer = io.BytesIO()
    torch.save(_unshared(value), buffer)
    payload = buffer.getvalue()
    return checksum(payload) + payload


def _unshared(value: Any) -> Any:
    r"""An equal value whose bytes do not depend on which of its parts are the same object.

    Pickle writes an object once and then refers to it, so that equal states would differ in their
    bytes after one of them was loaded.
    """
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {_unshared(key): _unshared(each) for key, each in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_unshared(each) for each in value)
    return sys.intern(value) if type(value) is str else value


def decode(blob: bytes | None) -> Any:
    r"""What `encode` was given, on the CPU; None stays None.

    Raises:
        StoreError: If these are not bytes that `encode` has made, or if they hold anything
            but tensors and plain Python values.

    Example:
        >>> decode(encode(torch.tensor([1.0, float("nan")])))
        tensor([1., nan])
    """
    if blob is None:
        return None
    if not isinstance(blob, bytes):
        raise StoreError(f"Expected stored bytes. Got a value of type {type(blob).__name__}.")
    payload = blob[_CHECKSUM_BYTES:]
    if checksum(payload) != blob[:_CHECKSUM_BYTES]:
        raise StoreError(f"Expected stored bytes that fit their checksum. Got {len(blob)} others.")
    try:
        return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever PyTorch's reader stumbles over
        lines = str(error).splitlines() or [type(error).__name__]
        raise StoreError(
            f"Expected stored tensors and plain Python values. Got {lines[0]!r}."
        ) from error
