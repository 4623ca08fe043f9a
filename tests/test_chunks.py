r"""Sizes of blocks by device and by the length of a row."""

from __future__ import annotations

import pytest
import torch

from botorch_risk.chunks import ChunkSize

SIZE = ChunkSize(cpu=100, gpu=1000)


@pytest.mark.parametrize(("device", "entries"), [("cpu", 100), ("cuda", 1000), ("mps", 1000)])
def test_a_block_has_the_entries_of_its_device(device, entries):
    assert SIZE.entries(torch.device(device)) == entries


@pytest.mark.parametrize(("row", "rows"), [(0, 100), (1, 100), (7, 14), (100, 1), (101, 1)])
def test_a_block_has_whole_rows_and_at_least_one(row, rows):
    assert SIZE.rows(torch.device("cpu"), row) == rows
