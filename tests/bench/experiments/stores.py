r"""A small store, filled by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.experiments import ExperimentStore

IDENTITY: dict[str, Any] = {"experiment": "sine", "seeds": [0, 1], "optimal_value": 0.1 + 0.2}


def record(store: ExperimentStore, index: int, label: str = "random") -> None:
    X = torch.rand(2, 3, 1, dtype=torch.double)
    store.record_outcomes(label, index, X, X.expand(2, 3, 4), X.squeeze(-1), (0.1, 0.2))


def complete(store: ExperimentStore, index: int, state: dict[str, Any] | None = None) -> None:
    state = {"round": index} if state is None else state
    store.record_tell("random", index, torch.zeros(2, 1), torch.zeros(2), state, 0.3)


def fill(path: Path) -> Path:
    r"""The store of three completed rounds."""
    with ExperimentStore(path, IDENTITY) as store:
        store.add_strategy("random", "RandomSearch")
        for index in range(3):
            record(store, index)
            complete(store, index)
    return path


def change(path: Path, statement: str, *values: Any) -> None:
    r"""Behind the back of the store."""
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement, values).rowcount != 0
    connection.close()
