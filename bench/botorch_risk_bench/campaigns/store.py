r"""One SQLite file for a campaign, with one writer: each report of a worker is inserted once.

    identity    what campaign this is: one JSON value for each key
    blocks      one row each: its strategy's kind, its last completed round, its state then
    rounds      one row for each experiment, strategy, setting, seed and round
    timings     what each round of a block took
    failures    blocks that have failed, with the cause
    reports     the machine, the time and the memory of each report
    tallies     how many reports a block has, and whether it has failed

Values other than numbers are JSON, to the last bit. Reading unpickles nothing, and imports nothing
that the campaign names. Each row has a checksum of all its columns, which is compared on reading,
and the rounds of a block have no gaps: a reader gets the recorded values, or a `StoreError` that
names the missing ones.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from botorch.exceptions.errors import BotorchError

from botorch_risk_bench.campaigns.claims import check_local
from botorch_risk_bench.campaigns.damage import Survey, forget, survey
from botorch_risk_bench.campaigns.database import (
    StoreError,
    check_identity,
    check_no_gaps,
    check_row,
    checksum,
    clear_errors,
    has_begun,
    open_database,
    read_identity,
    snapshot,
    transaction,
    write_identity,
)
from botorch_risk_bench.campaigns.description import Block, Campaign, Series, blocks_of
from botorch_risk_bench.campaigns.schema import BLOCK, COLUMNS, IS_BLOCK, IS_KEY, KEY, NAMED
from botorch_risk_bench.campaigns.stored_values import checked_identity
from botorch_risk_bench.campaigns.worker import Failure, Report, Row, versions
from botorch_risk_bench.experiments.problem import decision_space

# Of Python's errors of a call, such as "f() missing 1 required keyword-only argument: 'x'".
_CALLED = re.compile(r"^[\w.<>]+\(\) (got )?")
_MISSING = re.compile(r"^missing \d+ required (keyword-only|positional) arguments?: ")


@dataclass(frozen=True)
class Progress:
    r"""How far a block is.

    Args:
        last_round: The last completed round, -1 before any.
        state: The strategy's state then, as JSON.
        failure: Why it has failed, if it has.
    """

    last_round: int = -1
    state: str | None = None
    failure: Failure | None = None


class CampaignStore:
    r"""The results of a campaign in a SQLite file; a context manager.

    Any number of processes may read, one writes, on a disk of its own machine.
    """

    def __init__(
        self,
        path: str | Path,
        campaign: Campaign | None = None,
        extend: bool = False,
        device: str = "cpu",
    ) -> None:
        r"""Open the store.

        Args:
            path: The file, on no network file system: SQLite's locks do not hold there.
            campaign: If given, a missing file is created and an existing one has to be of this
                campaign; if not, the file has to be there.
            extend: Whether this campaign may extend the one in the file: with the same blocks, no
                fewer rounds, and perhaps more series.
            device: The kind of device on which all of it runs.

        The store keeps the optimal values that its campaign was last opened with: regret depends on
        them, and no round does.

        Raises:
            StoreError: If the file is missing, corrupt, locked, no campaign's store, or another
                campaign's: what differs is named. Nothing has been changed then.
            ValueError: If a problem or a strategy cannot be built in a setting.
        """
        self.path = Path(path)
        check_local(self.path)
        identity = None if campaign is None else identity_of(campaign, device)
        extended = extend and has_begun(self.path)
        self._connection = open_database(self.path, None if extended else identity)
        try:
            if campaign is not None and identity is not None:
                if extended:
                    self._extend(campaign, identity)
                elif self.identity != identity:  # by the optima alone, or it would be refused
                    with transaction(self._connection, self.path):
                        write_identity(self._connection, identity)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> CampaignStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def campaign(self) -> Campaign:
        return Campaign.from_json(self.identity["campaign"])

    @property
    def identity(self) -> dict[str, Any]:
        r"""What distinguishes the campaign from any other, as JSON values."""
        with clear_errors(self.path):
            found = read_identity(self._connection, self.path)
        return checked_identity(found, self.path)

    def identity_in(self, experiment: str, setting: str) -> dict[str, Any]:
        r"""What an experiment was in a setting when the campaign started, as JSON values."""
        known = self.identity["experiments"]
        if setting not in known.get(experiment, {}):
            names = [f"{name}, {each}" for name, settings in known.items() for each in settings]
            raise StoreError(
                f"Expected an experiment and a setting of {self.path} ({'; '.join(names)}). "
                f"Got {experiment=}, {setting=}."
            )
        identity: dict[str, Any] = known[experiment][setting]
        return identity

    def blocks(self) -> list[Block]:
        r"""The units of work, as in `Campaign.blocks`, without importing anything."""
        series = [Series(**each) for each in self.identity["spelled_out"]]
        return blocks_of(series, self.campaign.block_size)

    def begun(self, experiment: str, setting: str) -> dict[str, set[int]]:
        r"""The seeds that each strategy has begun."""
        found: dict[str, set[int]] = {}
        for _, label, _, first, num_seeds, _ in self._check_complete(experiment, None, setting):
            found.setdefault(label, set()).update(range(first, first + num_seeds))
        return found

    def progress(self, block: Block) -> Progress:
        r"""How far a block is."""
        found = next(self._intact("blocks", f"WHERE {IS_BLOCK}", *block.key), None)
        failed = next(self._intact("failures", f"WHERE {IS_BLOCK}", *block.key), None)
        failure = None if failed is None else Failure(*failed[4:7])
        if found is None:
            return Progress(failure=failure)
        return Progress(found[6], found[7], failure)

    def commit(self, report: Report) -> int:
        r"""Commit a report, all or nothing; rows that exist are compared, and stay."""
        block = report.block
        new: set[int] = set()
        with transaction(self._connection, self.path):
            last = self.progress(block).last_round
            for row in report.rows:
                if self._insert(block, row):
                    new.add(row.round)
            for index in new:
                self._write("timings", *block.key, index, *report.seconds[index])
            if report.last_round > last:
                how_far = report.kind, report.last_round, report.state
                self._write("blocks", *block.key, len(block.seeds), *how_far)
            if (why := report.failure) is not None:
                fields = why.round, why.cause, why.traceback, report.host
                self._write("failures", *block.key, *fields)
            took = report.host, float(report.cpu_seconds), report.peak_bytes
            self._write("reports", *block.key, len(new), *took)
            num_reports, has_failed = self._tally(block)
            self._write("tallies", *block.key, num_reports + 1, int(has_failed or why is not None))
        return len(new)

    def forget_failure(self, block: Block) -> None:
        with transaction(self._connection, self.path):
            self._connection.execute(f"DELETE FROM failures WHERE {IS_BLOCK}", block.key)
            self._write("tallies", *block.key, self._tally(block)[0], 0)

    def survey(self) -> Survey:
        r"""Read all of the store, and find what is damaged or missing in it."""
        with snapshot(self._connection, self.path):
            return survey(self._connection, self.blocks())

    def mend(self) -> Survey:
        r"""Delete what is damaged, so that its blocks are played again; what was found."""
        found = self.survey()
        if found.damages:
            with transaction(self._connection, self.path):
                forget(self._connection, found)
        return found

    def select(self, sql: str, *values: Any) -> Generator[tuple[Any, ...], None, None]:
        r"""The rows of a query, as they are stored."""
        with clear_errors(self.path):
            # Not `yield from`, which closes the cursor, perhaps after the connection was closed.
            for row in self._connection.execute(sql, values):  # noqa: UP028
                yield row

    def rows(self, *series: str) -> Iterator[tuple[Any, ...]]:
        r"""Read the rounds in the order of their keys."""
        self._check_complete(*series)
        where = f"WHERE {IS_KEY} " if series else ""
        return self._intact("rounds", f"{where}ORDER BY {KEY}, seed, round", *series)

    def timings(self, *series: str) -> Iterator[tuple[Any, ...]]:
        r"""Read the time of each round of the blocks of a series."""
        self._check_complete(*series)
        return self._intact("timings", f"WHERE {IS_KEY}" if series else "", *series)

    def reports(self) -> Iterator[tuple[Any, ...]]:
        r"""Read the machine, the time and the memory of each report."""
        return self._intact("reports")

    def _intact(self, table: str, clause: str = "", *values: Any) -> Iterator[tuple[Any, ...]]:
        r"""Read the rows of a table, and compare each with its checksum."""
        for row in self.select(f"SELECT {COLUMNS[table]}, checksum FROM {table} {clause}", *values):
            check_row(NAMED[table].format(*row), self.path, row[:-1], row[-1])
            yield row[:-1]

    def _check_complete(self, *series: str | None) -> list[tuple[Any, ...]]:
        r"""Check that no round is missing; return the blocks of a series that have begun."""
        given = zip(KEY.split(", "), series, strict=False)
        where = {f"{name} = ?": value for name, value in given if value is not None}
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        with snapshot(self._connection, self.path):
            rows = self._intact("blocks", f"{clause} ORDER BY {BLOCK}", *where.values())
            begun = [(*row[:5], row[6]) for row in rows]
            for table, key in (("rounds", f"{KEY}, seed"), ("timings", BLOCK)):
                query = f"SELECT {key}, round FROM {table} {clause} ORDER BY {key}, round"
                with closing(self.select(query, *where.values())) as found:
                    check_no_gaps(table, begun, found, self.path)
        return begun

    def _tally(self, block: Block) -> tuple[int, int]:
        r"""The number of reports of a block, and whether it has failed."""
        found = next(self._intact("tallies", f"WHERE {IS_BLOCK}", *block.key), None)
        return (0, 0) if found is None else (found[4], found[5])

    def _write(self, table: str, *row: Any) -> None:
        r"""Write a row, instead of one with the same key."""
        marks = ", ".join("?" * (len(row) + 1))
        self._connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES ({marks})", (*row, checksum(*row))
        )

    def _insert(self, block: Block, row: Row) -> bool:
        r"""Write a row and return whether it is new; an existing one must be equal."""
        values = (*block.series, *row)
        clause = f"WHERE {IS_KEY} AND seed = ? AND round = ?"
        stored = next(self._intact("rounds", clause, *values[:5]), None)
        if stored is None:
            self._write("rounds", *values)
        elif stored != values:
            raise StoreError(
                f"Expected round {row.round} of {block}, played twice, to be the same. Got "
                f"other values of seed {row.seed}: its workers compute differently (see the "
                f"hosts in the table `reports` of {self.path})."
            )
        return stored is None

    def _extend(self, campaign: Campaign, new: dict[str, Any]) -> None:
        r"""Hand the store to a campaign that extends its own."""
        stored = self.identity
        blocks = {block.key: block for block in campaign.blocks()}
        for old in self.blocks():
            block = blocks.get(old.key)
            if block is None or block.seeds != old.seeds or block.num_rounds < old.num_rounds:
                raise StoreError(
                    f"Expected a campaign that goes on from {self.path}: {old}, with "
                    f"{old.num_rounds} rounds or more. Got {block}."
                )
        kept = {
            name: {each: new["experiments"].get(name, {}).get(each) for each in settings}
            for name, settings in stored["experiments"].items()
        }
        unchanged = {name: stored.get(name) for name in ("campaign", "spelled_out")}
        check_identity(stored, {**new, **unchanged, "experiments": kept}, self.path)
        with transaction(self._connection, self.path):
            write_identity(self._connection, new)


def identity_of(campaign: Campaign, device: str) -> dict[str, Any]:
    r"""What distinguishes a campaign from any other, as JSON values.

    Every experiment is built once in each setting, and every strategy, so that what cannot run is
    found before anything has.
    """
    experiments: dict[str, dict[str, Any]] = {}
    blocks = campaign.blocks()
    for name, settings in campaign.settings().items():
        for setting, changes in settings.items():
            own = [block for block in blocks if block.series[::2] == (name, setting)]
            seeds = sorted({seed for block in own for seed in block.seeds})
            definition = campaign.definition(name, changes)
            with _building(f"the problem of {name!r}", setting):
                problem = definition.problem_of(seeds)
            for label in dict.fromkeys(block.strategy for block in own):
                with _building(f"{label!r} of {name!r}", setting):
                    definition.build(label, decision_space(problem), seeds[:1])
            experiments.setdefault(name, {})[setting] = definition.identity(problem)
    series = [dataclasses.asdict(each) for each in campaign.spelled_out()]
    return {
        "campaign": campaign.to_json(),
        "device": device,
        "experiments": experiments,
        "spelled_out": json.loads(json.dumps(series)),
        "versions": versions(),
    }


@contextmanager
def _building(what: str, setting: str) -> Iterator[None]:
    r"""Name what cannot be built, as an error may name a function that several strategies call."""
    try:
        yield
    except (TypeError, ValueError, BotorchError) as error:
        called = _CALLED.match(str(error)) if isinstance(error, TypeError) else None
        if called is None:
            raise ValueError(f"In the setting {setting!r}, {what}: {error}") from error
        got = _MISSING.sub("no ", str(error)[called.end() :])
        raise ValueError(
            f"Expected {what} to get all of its arguments, and no others, in the setting "
            f"{setting!r}. Got {got}."
        ) from error
    except SystemExit as error:
        raise ValueError(
            f"Expected {what} to be built in the setting {setting!r}. Got {error!r}."
        ) from error
