from __future__ import annotations

import math

import pytest
from botorch_risk_bench.experiments.campaigns import Block, best_block_size


def test_names() -> None:
    block = Block("sine", "RAHBO", "default", (4, 5), 20)
    assert block.key == ("sine", "RAHBO", "default", 4)
    assert str(Block("sine", "RAHBO", "default", (4,), 20)).endswith("seeds 4")
    others = [
        Block("sine", "RAHBO", "default", (6, 7), 20),
        Block("sine", "GP", "default", (4,), 1),
    ]
    assert len({each.folder_name for each in (block, *others)}) == 3
    assert block.folder_name == Block("sine", "RAHBO", "default", (4, 5), 30).folder_name


def schedule(num_seeds: int, num_series: int, num_workers: int, size: int) -> float:
    r"""The time of the last worker, each block to the first worker that is free."""
    sizes = [min(size, num_seeds - first) for first in range(0, num_seeds, size)] * num_series
    ends = [0.0] * num_workers
    for each in sizes:
        free = ends.index(min(ends))
        ends[free] += 0.95 + 0.05 * each
    return max(ends)


@pytest.mark.parametrize("num_seeds", [1, 7, 20])
@pytest.mark.parametrize("num_series", [1, 3, 40])
@pytest.mark.parametrize("num_workers", [1, 2, 16])
def test_the_best_size_is_near_that_of_a_schedule(
    num_seeds: int, num_series: int, num_workers: int
) -> None:
    size = best_block_size(num_seeds, num_series, num_workers)
    best = min(schedule(num_seeds, num_series, num_workers, n) for n in range(1, num_seeds + 1))
    assert schedule(num_seeds, num_series, num_workers, size) <= 1.1 * best
    assert math.ceil(num_seeds / size) <= max(num_workers, 1)  # no more blocks than can help


def test_errors() -> None:
    with pytest.raises(ValueError, match="`num_workers` to be at least 1"):
        best_block_size(1, 1, 0)
