from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.experiments import StoreError
from botorch_risk_bench.experiments.serialization import decode, encode


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_tensors_survive_bit_for_bit(dtype: torch.dtype) -> None:
    value = torch.tensor([0.1, -0.0, 1e-45, 3.0]).to(dtype)
    back = decode(encode(value[::2]))
    assert back.dtype == dtype
    assert torch.equal(back, value[::2])
    assert decode(encode(torch.tensor(torch.nan))).isnan()


def test_views_do_not_drag_their_storage_along() -> None:
    assert len(encode(torch.zeros(100_000)[:2])) < 3000


def test_decode_runs_no_code() -> None:
    with pytest.raises(StoreError, match="plain Python values"):
        decode(encode(Path("x")))


@pytest.mark.parametrize("blob", [b"", b"nonsense", "abc", 7, bytes(99), torch.zeros(2)], ids=repr)
def test_what_encode_never_made_is_refused(blob: Any) -> None:
    with pytest.raises(StoreError, match="Expected stored"):
        decode(blob)


def test_no_flipped_bit_is_decoded() -> None:
    blob = encode(torch.arange(4.0))
    for index in range(len(blob)):
        data = bytearray(blob)
        data[index] ^= 0x10
        with pytest.raises(StoreError, match="Expected stored"):
            decode(bytes(data))
    with pytest.raises(StoreError, match="Expected stored"):
        decode(blob[:-1])


def test_bytes_depend_on_the_value_alone() -> None:
    row, name = [1.0, float("nan")], "rounds"
    shared = {"a": row, "b": row, "c": [name, name]}
    apart = {"a": list(row), "b": list(row), "c": [name, "".join(["rou", "nds"])]}
    assert encode(shared) == encode(apart) == encode(decode(encode(shared)))
