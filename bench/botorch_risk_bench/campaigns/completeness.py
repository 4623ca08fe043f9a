r"""Whether a campaign's store has every round that its blocks have played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any

from botorch_risk_bench.campaigns.database import StoreError
from botorch_risk_bench.campaigns.schema import NAMED

_NAMED_GAPS = 4
_TYPES = (str, str, str, int, int)
Key = tuple[Any, ...]  # experiment, strategy, setting, seed, round


def check_no_gaps(table: str, begun: list[Key], found: Iterable[Key], path: Path) -> None:
    r"""Raises a StoreError that names the rows that are missing, or that no block has played.

    Args:
        table: `rounds`, with a row for each seed, or `timings`, with one for each block.
        begun: Experiment, strategy, setting, first seed, number of seeds and last round of each
            block, in the order of the keys.
        found: The keys of the rows of the table, in their order.
        path: The store.
    """
    expected = ((key, True) for key in _keys(table, begun))
    there = ((_typed(key, path), False) for key in found)
    missing: list[str] = []
    extra: list[str] = []
    for key, sides in groupby(merge(expected, there), key=lambda each: each[0]):
        if len(found_in := [is_expected for _, is_expected in sides]) == 1:
            (missing if found_in[0] else extra).append(NAMED[table].format(*key))
    if missing:
        raise StoreError(f"Expected {_first(missing)} in {path}. Got none.")
    if extra:
        raise StoreError(f"Expected a block that has played {_first(extra)} in {path}. Got none.")


def _first(names: list[str]) -> str:
    more = len(names) - _NAMED_GAPS
    return "; ".join([*names[:_NAMED_GAPS], *([f"{more} more"] if more > 0 else [])])


def _keys(table: str, begun: list[Key]) -> Iterator[Key]:
    r"""The rows that blocks have played."""
    for *series, first, num_seeds, last in begun:
        for seed in range(first, first + (num_seeds if table == "rounds" else 1)):
            for index in range(last + 1):
                yield (*series, seed, index)


def _typed(key: Key, path: Path) -> Key:
    if tuple(map(type, key)) != _TYPES:
        raise StoreError(f"Expected {path} to be an intact store. Got a row with the key {key}.")
    return key
