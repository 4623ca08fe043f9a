r"""A store of JSON lines, one row a case, to which a run that was stopped goes back."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Case = tuple[Any, ...]


def read(path: Path) -> list[dict[str, Any]]:
    r"""The rows of a store; a last line that an interruption cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1] if line]


def missing_cases(path: Path, key: Sequence[str], cases: Iterable[Case]) -> list[Case]:
    r"""The cases that are not stored; drops a line that was cut off.

    Args:
        path: The store, whose folder is made if it is not there.
        key: The entries of a row that name its case.
        cases: All that are wanted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = read(path)
    if stored:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in stored), encoding="utf-8")
    done = {tuple(row[name] for name in key) for row in stored}
    return [case for case in cases if case not in done]


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    r"""Stores each row as it comes, and says how many there were."""
    with path.open("a", encoding="utf-8") as store:
        for number, row in enumerate(rows, start=1):
            store.write(f"{json.dumps(row)}\n")
            store.flush()
            yield number
