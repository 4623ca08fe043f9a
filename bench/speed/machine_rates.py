r"""What this machine does in a second, for kernels at the very shapes that a part uses."""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

import torch
from torch import Tensor

from bench.speed.risk_measures import smooth_values

# A probe of a small shape is made of several, up to this many operations and this large a batch: so
# the cost of the call itself does not count, and all still lies in the cache.
ENOUGH, MOST_COPIES = 4e5, 64
LEAST_SECONDS = 2e-3  # of one timing: shorter calls are repeated in it
ALWAYS_WARM = 1.0  # a call of this many seconds needs no other to warm up
Probe = tuple[Callable[[], object], float]  # a call, and how many operations it does


def _random(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def _copies(batch: int, operations: float) -> int:
    r"""The batch of a probe whose entries take so many operations each."""
    return max(batch, min(MOST_COPIES, math.ceil(ENOUGH / operations)))


def _product(batch: int, m: int, k: int, n: int) -> Probe:
    batch = _copies(batch, 2 * m * k * n)
    first, second = _random(batch, m, k), _random(batch, k, n)
    out = first.new_empty(batch, m, n)
    if batch == 1:
        return partial(torch.mm, first[0], second[0], out=out[0]), 2 * m * k * n
    return partial(torch.bmm, first, second, out=out), 2 * batch * m * k * n


def _peak(size: int) -> Probe:
    return _product(1, size, size, size)


def _positive_definite(batch: int, n: int) -> Tensor:
    root = _random(batch, n, n)
    return root @ root.mT + n * torch.eye(n, dtype=root.dtype)


def _cholesky(batch: int, n: int) -> Probe:
    batch = _copies(batch, n**3 / 3)
    return partial(torch.linalg.cholesky_ex, _positive_definite(batch, n)), batch * n**3 / 3


def _inverse(batch: int, n: int) -> Probe:
    batch = _copies(batch, 2 * n**3 / 3)
    factor = torch.linalg.cholesky(_positive_definite(batch, n))
    return partial(torch.cholesky_inverse, factor), batch * 2 * n**3 / 3


def _solve(batch: int, n: int) -> Probe:
    batch = _copies(batch, n**2)
    factor = torch.linalg.cholesky(_positive_definite(batch, n))
    right = _random(batch, n, 1)
    return partial(torch.linalg.solve_triangular, factor, right, upper=False), batch * n**2


def _sort(rows: int, n: int) -> Probe:
    line = torch.linspace(0, 1, n, dtype=torch.float64).unsqueeze(-1)
    return partial(torch.sort, smooth_values(line, rows), dim=-1), rows * n


def _entrywise(function: Callable[..., Tensor], entries: int) -> Probe:
    values = _random(entries)
    return partial(function, values, out=torch.empty_like(values)), entries


def _divide(entries: int) -> Probe:
    values = _random(entries) + 1
    return partial(torch.div, values, values, out=torch.empty_like(values)), entries


def _copy(entries: int) -> Probe:
    entries = _copies(entries, 1)
    values = _random(entries)
    return partial(torch.empty_like(values).copy_, values), 16 * entries  # read and written


def _call() -> Probe:
    one = _random(1)
    return partial(torch.add, one, one), 1


PROBES: dict[str, Callable[..., Probe]] = {
    "product": _product,
    "peak": _peak,
    "cholesky": _cholesky,
    "inverse": _inverse,
    "solve": _solve,
    "sort": _sort,
    "exp": partial(_entrywise, torch.exp),
    "sqrt": partial(_entrywise, torch.sqrt),
    "divide": _divide,
    "copy": _copy,
    "call": _call,  # of a torch operation on one number
}


def cpu_seconds(ways: Mapping[str, Callable[[], object]], budget: float) -> dict[str, float]:
    r"""Median CPU seconds of one call of each way, all in turns, for about so many seconds."""
    sizes = {name: _calls_in_a_timing(way) for name, way in ways.items()}
    repeats = min(15, max(3, int(budget / sum(seconds for _, seconds in sizes.values()))))
    turns = [
        {name: _timed(way, sizes[name][0]) for name, way in ways.items()} for _ in range(repeats)
    ]
    return {name: median(turn[name] for turn in turns) for name in ways}


def _calls_in_a_timing(way: Callable[[], object]) -> tuple[int, float]:
    r"""How many calls, after some to warm up, and their seconds."""
    count, seconds = 1, _timed(way, 1)
    for _ in range(3):
        if seconds < ALWAYS_WARM:
            seconds = min(seconds, _timed(way, 1))
    while seconds < LEAST_SECONDS:
        count *= 2
        seconds = count * _timed(way, count)
    return count, seconds


def _timed(way: Callable[[], object], count: int) -> float:
    r"""CPU seconds of a call; where they are short, after one that brings all into the cache."""
    if count > 1:
        way()
    start = time.process_time()
    for _ in range(count):
        way()
    return max(time.process_time() - start, 1e-9) / count
