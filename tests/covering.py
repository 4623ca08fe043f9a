r"""Choose the cases of each test that `make test` runs; the others become slow.

A test over the product of several lists runs a covering design: each value of each list appears,
each law with at least four cases, each case with at least three laws. A test over one list of cases
runs one case of each `kind`. A list in which a column never repeats runs whole, or four rows of it
under the mark `handful`. A hash of the names breaks ties, so that every run chooses the same cases.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import pytest

FEW = 4  # a test with so many cases runs them all
DEVICE = "device"


def mark_the_rest_slow(items: Iterable[pytest.Item]) -> None:
    r"""Marks the cases outside of the design of their test as slow, device by device."""
    tests: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            name, values = item.nodeid.partition("[")[0], item.callspec.params
            tests[name, str(values.get(DEVICE))].append(item)
    for rows in tests.values():
        kept = design({item.nodeid: labels(item) for item in rows})
        if rows[0].get_closest_marker("handful"):
            kept = {*sorted(kept, key=by_hash)[:FEW]}
        for item in rows:
            if item.nodeid not in kept:
                item.add_marker(pytest.mark.slow)


def by_hash(name: str) -> bytes:
    r"""A key that sorts names in an order of no meaning, the same in every run."""
    return sha256(name.encode()).digest()


def labels(item: Any) -> dict[str, Hashable]:
    r"""What each parameter of a test stands for: the name of a law, the kind of a case, a value."""
    parameters = item.callspec.params.items()
    return {name: _label(value) for name, value in parameters if name != DEVICE}


def design(rows: Mapping[str, Mapping[str, Hashable]]) -> set[str]:
    r"""The names of the rows that are kept.

    Args:
        rows: The name of each row, and the label of each of its parameters.
    """
    if len(rows) <= FEW:
        return {*rows}
    axes = _axes([*rows.values()])
    if any(len({row[axis] for row in rows.values()}) == len(rows) for axis in axes):
        return {*rows}  # a list whose rows have nothing in common
    least = {axis: _least(axis, axes) for axis in axes}
    if len(axes) == 1:  # the same cases for every law, so that they share what they compute
        waiting = sorted(rows, key=lambda name: by_hash(name.partition("[")[2]))
    else:
        waiting = sorted(rows, key=by_hash)
    seen: Counter[Hashable] = Counter()
    kept: set[str] = set()

    def gain(name: str) -> int:
        return sum(seen[axis, rows[name][axis]] < least[axis] for axis in axes)

    while waiting and gain(best := max(waiting, key=gain)):
        seen.update((axis, rows[best][axis]) for axis in axes)
        kept.add(best)
        waiting.remove(best)
    return kept


def _label(value: Any) -> Hashable:
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    return getattr(value, "kind", None) or getattr(value, "name", id(value))


def _axes(rows: Sequence[Mapping[str, Hashable]]) -> list[str]:
    r"""One parameter of each list: those that always come together count as one."""
    axes: list[str] = []
    for name in rows[0]:
        pairs = {(row[name], *(row[axis] for axis in axes)) for row in rows}
        if len(pairs) > len({tuple(row[axis] for axis in axes) for row in rows}) or not axes:
            axes.append(name)
    return axes


def _least(axis: str, axes: Sequence[str]) -> int:
    return 1 if "law" not in axes else 4 if axis == "law" else 3
