r"""Experiments that are run here and now, and what their stores say."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords, run_experiment
from botorch_risk_bench.experiments import ExperimentDefinition


def play(
    given: ExperimentDefinition | str,
    path: Path,
    num_seeds: int,
    strategies: Sequence[str] = (),
    num_rounds: int | None = None,
    **options: Any,
) -> None:
    name, own = (given, ()) if isinstance(given, str) else (given.name, (given,))
    chosen = {"strategies": strategies, "num_rounds": num_rounds, **options}
    run_experiment(name, path, num_seeds, own=own, progress=False, **chosen)


@contextmanager
def records_in(path: Path) -> Iterator[ExperimentRecords]:
    with CampaignStore(path) as store:
        yield ExperimentRecords(store)


def bytes_of(path: Path) -> list[tuple[Any, ...]]:
    r"""Every column of every round, and the states, as they are in the file."""
    with closing(sqlite3.connect(path)) as connection:
        rounds = connection.execute("SELECT * FROM rounds ORDER BY 1, 2, 3, 4, 5").fetchall()
        blocks = connection.execute("SELECT * FROM blocks ORDER BY 1, 2, 3, 4").fetchall()
    return [*rounds, *blocks]


def change(path: Path, statement: str, *values: Any) -> None:
    r"""Behind the back of the store."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount != 0
