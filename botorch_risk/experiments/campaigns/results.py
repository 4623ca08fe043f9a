r"""One SQLite file for a campaign, with one writer: what workers report is inserted once.

    identity    what campaign this is: one JSON value for each key
    blocks      one row each: its strategy's kind, its last completed round, its state then
    rounds      one row for each experiment, strategy, setting, seed and round
    timings     what each round of a block took
    failures    blocks that cannot go on, with the cause
    reports     where and when rounds were played, and what that took

What is not a number is JSON, with as many digits as tell a number from any other; nothing is
unpickled. Rows have checksums of all their columns, which are compared when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from botorch_risk.experiments.campaigns.block import Block
from botorch_risk.experiments.campaigns.description import Campaign
from botorch_risk.experiments.campaigns.file_systems import check_local
from botorch_risk.experiments.campaigns.worker import Failure, Report, Row, versions
from botorch_risk.experiments.claims import claim
from botorch_risk.experiments.database import (
    Schema,
    check_identity,
    check_row,
    clear_errors,
    open_database,
    read_identity,
    transaction,
    write_identity,
)
from botorch_risk.experiments.definition import ExperimentDefinition
from botorch_risk.experiments.experiment_run import identity_of as experiment_identity
from botorch_risk.experiments.experiment_run import problem_of
from botorch_risk.experiments.problem import decision_space
from botorch_risk.experiments.serialization import StoreError, checksum
from botorch_risk.experiments.store import WAIT_SECONDS

KEY = "experiment, strategy, setting"
_IS_KEY = "experiment = ? AND strategy = ? AND setting = ?"
_NAMES = "experiment TEXT NOT NULL, strategy TEXT NOT NULL, setting TEXT NOT NULL"
_VALUES = "X, Y, objective, recommendation, recommended_objective"
ROW = f"{KEY}, seed, round, {_VALUES}"
SCHEMA = Schema(
    kind="the store of a campaign",
    application_id=0x42525843,  # "BRXC"
    version=1,
    tables=(
        f"CREATE TABLE blocks ({_NAMES}, first_seed INTEGER NOT NULL, num_seeds INTEGER NOT NULL, "
        "kind TEXT NOT NULL, round INTEGER NOT NULL, state TEXT, checksum BLOB NOT NULL, "
        f"PRIMARY KEY ({KEY}, first_seed)) WITHOUT ROWID",
        f"CREATE TABLE rounds ({_NAMES}, seed INTEGER NOT NULL, round INTEGER NOT NULL, "
        "X TEXT NOT NULL, Y TEXT NOT NULL, objective TEXT, recommendation TEXT NOT NULL, "
        "recommended_objective TEXT, checksum BLOB NOT NULL, "
        f"PRIMARY KEY ({KEY}, seed, round)) WITHOUT ROWID",
        f"CREATE TABLE timings ({_NAMES}, first_seed INTEGER NOT NULL, round INTEGER NOT NULL, "
        "ask_seconds REAL NOT NULL, evaluate_seconds REAL NOT NULL, tell_seconds REAL NOT NULL, "
        f"PRIMARY KEY ({KEY}, first_seed, round)) WITHOUT ROWID",
        f"CREATE TABLE failures ({_NAMES}, first_seed INTEGER NOT NULL, round INTEGER NOT NULL, "
        "cause TEXT NOT NULL, traceback TEXT NOT NULL, host TEXT NOT NULL, "
        f"PRIMARY KEY ({KEY}, first_seed)) WITHOUT ROWID",
        f"CREATE TABLE reports ({_NAMES}, first_seed INTEGER NOT NULL, "
        "num_rounds INTEGER NOT NULL, host TEXT NOT NULL, cpu_seconds REAL NOT NULL, "
        "peak_bytes INTEGER NOT NULL)",
    ),
)


@dataclass(frozen=True)
class Progress:
    r"""How far a block is.

    Args:
        last_round: The last completed round, -1 before any.
        state: The strategy's state then, as JSON.
        failure: Why it cannot go on, if it cannot.
    """

    last_round: int = -1
    state: str | None = None
    failure: Failure | None = None


class CampaignStore:
    r"""The results of a campaign in a SQLite file; a context manager.

    Any number of processes may read, one writes, on a disk of its own machine.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from botorch_risk.experiments.campaigns import Campaign, Series
        >>> campaign = Campaign("tiny", [Series("sine", "GP-UCB", num_seeds=1, num_rounds=1)])
        >>> with TemporaryDirectory() as folder:
        ...     with CampaignStore(f"{folder}/a.sqlite", campaign) as store:
        ...         store.progress(campaign.blocks()[0]).last_round
        -1
    """

    def __init__(
        self,
        path: str | Path,
        campaign: Campaign | None = None,
        extend: bool = False,
        device: str = "cpu",
    ) -> None:
        r"""Opens the store.

        Args:
            path: The file, on no network file system: SQLite's locks do not hold there.
            campaign: If given, a missing file is created and an existing one has to be of this
                campaign; if not, the file has to be there.
            extend: Whether the file may be of a campaign that this one goes on from: with the same
                blocks, no fewer rounds, and perhaps more series.
            device: The kind of device on which all of it runs.

        Raises:
            StoreError: If the file is missing, corrupt, locked, no campaign's store, or another
                campaign's: what differs is named. Nothing has been changed then.
            ValueError: If a strategy does not take the arguments of a setting.
        """
        self.path = Path(path)
        check_local(self.path)
        identity = None if campaign is None else identity_of(campaign, device)
        extended = extend and self.path.exists()
        self._connection = open_database(self.path, None if extended else identity, SCHEMA)
        if campaign is not None and identity is not None and extended:
            try:
                self._extend(campaign, identity)
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
        r"""Closes the file."""
        self._connection.close()

    def claim(self, wait_seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        r"""Keeps other processes from writing for as long as the context lasts.

        Raises:
            StoreError: If another process still writes after `wait_seconds`; it is named.
        """
        return claim(self.path, "the campaign", wait_seconds)

    @property
    def campaign(self) -> Campaign:
        r"""The campaign that the store is of."""
        return Campaign.from_json(self.identity["campaign"])

    @property
    def identity(self) -> dict[str, Any]:
        r"""What distinguishes the campaign from any other, as JSON values.

        Raises:
            StoreError: If it has been changed since the store was created.
        """
        with clear_errors(self.path):
            return read_identity(self._connection, self.path)

    def identity_in(self, experiment: str, setting: str) -> dict[str, Any]:
        r"""What an experiment was in a setting when the campaign began, as JSON values.

        Raises:
            StoreError: If it is none of the campaign's.
        """
        known = self.identity["experiments"]
        if setting not in known.get(experiment, {}):
            names = [f"{name}, {each}" for name, settings in known.items() for each in settings]
            raise StoreError(
                f"Expected an experiment and a setting of {self.path} ({'; '.join(names)}). "
                f"Got {experiment=}, {setting=}."
            )
        identity: dict[str, Any] = known[experiment][setting]
        return identity

    def progress(self, block: Block) -> Progress:
        r"""How far a block is.

        Raises:
            StoreError: If what is stored is not what was recorded.
        """
        with clear_errors(self.path):
            row = self._connection.execute(
                f"SELECT {KEY}, first_seed, num_seeds, kind, round, state, checksum FROM blocks "
                f"WHERE {_IS_KEY} AND first_seed = ?",
                block.key,
            ).fetchone()
            failed = self._connection.execute(
                f"SELECT round, cause, traceback FROM failures WHERE {_IS_KEY} AND first_seed = ?",
                block.key,
            ).fetchone()
        failure = None if failed is None else Failure(*failed)
        if row is None:
            return Progress(failure=failure)
        check_row(f"the state of {block}", self.path, row[:-1], row[-1])
        return Progress(row[6], row[7], failure)

    def commit(self, report: Report) -> int:
        r"""Takes a report, all or nothing; what is there already is compared, and stays.

        Returns:
            The number of rounds that are new.

        Raises:
            StoreError: If a round is there with other values: two workers disagree, and the
                results would depend on which came first.
        """
        block = report.block
        new: set[int] = set()
        with transaction(self._connection, self.path):
            last = self.progress(block).last_round
            for row in report.rows:
                if self._insert(block, row):
                    new.add(row.round)
            for index in new:
                self._connection.execute(
                    f"INSERT INTO timings VALUES ({_marks(8)})",
                    (*block.key, index, *report.seconds[index]),
                )
            if report.last_round > last:
                values = (
                    *block.key,
                    len(block.seeds),
                    report.kind,
                    report.last_round,
                    report.state,
                )
                self._connection.execute(
                    f"INSERT OR REPLACE INTO blocks VALUES ({_marks(9)})",
                    (*values, checksum(*values)),
                )
            if report.failure is not None:
                fields = report.failure
                self._connection.execute(
                    f"INSERT OR REPLACE INTO failures VALUES ({_marks(8)})",
                    (*block.key, fields.round, fields.cause, fields.traceback, report.host),
                )
            self._connection.execute(
                f"INSERT INTO reports VALUES ({_marks(8)})",
                (*block.key, len(new), report.host, report.cpu_seconds, report.peak_bytes),
            )
        return len(new)

    def forget_failure(self, block: Block) -> None:
        r"""Lets a block go on that has failed."""
        with transaction(self._connection, self.path):
            self._connection.execute(
                f"DELETE FROM failures WHERE {_IS_KEY} AND first_seed = ?", block.key
            )

    def select(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        r"""The rows of a query, as they are stored."""
        with clear_errors(self.path):
            yield from self._connection.execute(sql, values)

    def rows(self, *series: str) -> Iterator[tuple[Any, ...]]:
        r"""The rounds in the order of their keys, each as its columns `ROW`.

        Args:
            series: An experiment, a strategy and a setting; all if omitted.

        Raises:
            StoreError: If a row is not the one that was recorded.
        """
        where = f"WHERE {_IS_KEY} " if series else ""
        order = f"ORDER BY {KEY}, seed, round"
        for row in self.select(f"SELECT {ROW}, checksum FROM rounds {where}{order}", *series):
            check_row(f"round {row[4]} of {row[:4]}", self.path, row[:-1], row[-1])
            yield row[:-1]

    def _insert(self, block: Block, row: Row) -> bool:
        r"""Whether a row is new; if not, it must be the one that is there."""
        values = (*block.series, *row)
        inserted = self._connection.execute(
            f"INSERT INTO rounds VALUES ({_marks(11)}) ON CONFLICT DO NOTHING",
            (*values, checksum(*values)),
        ).rowcount
        if not inserted:
            stored = self._connection.execute(
                f"SELECT {ROW} FROM rounds WHERE {_IS_KEY} AND seed = ? AND round = ?", values[:5]
            ).fetchone()
            if stored != values:
                raise StoreError(
                    f"Expected round {row.round} of {block}, played twice, to be the same. Got "
                    f"other values of seed {row.seed}: its workers compute differently (see the "
                    f"hosts in the table `reports` of {self.path})."
                )
        return bool(inserted)

    def _extend(self, campaign: Campaign, new: dict[str, Any]) -> None:
        r"""Makes the store this campaign's if it goes on from the one that it is of."""
        stored = self.identity
        blocks = {block.key: block for block in campaign.blocks()}
        for old in self.campaign.blocks():
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
        check_identity(
            stored, {**new, "campaign": stored["campaign"], "experiments": kept}, self.path
        )
        with transaction(self._connection, self.path):
            write_identity(self._connection, new)


def identity_of(campaign: Campaign, device: str) -> dict[str, Any]:
    r"""What distinguishes a campaign from any other, as JSON values.

    Every experiment is built once in each setting, and every strategy, so that what cannot run is
    found before anything has.

    Raises:
        ValueError: If an experiment, a strategy or one of its arguments is unknown.
    """
    experiments: dict[str, dict[str, Any]] = {}
    blocks = campaign.blocks()
    for name, settings in campaign.settings().items():
        for setting, changes in settings.items():
            own = [block for block in blocks if block.series[::2] == (name, setting)]
            seeds = sorted({seed for block in own for seed in block.seeds})
            definition = campaign.definition(name, changes)
            problem = problem_of(definition, seeds)
            for label in dict.fromkeys(block.strategy for block in own):
                _check_built(definition, label, decision_space(problem), seeds[:1], setting)
            identity = experiment_identity(definition, problem, seeds, device)
            for name_of_all in ("seeds", "device", "package_version"):  # of the campaign
                del identity[name_of_all]
            experiments.setdefault(name, {})[setting] = identity
    return {
        "campaign": campaign.to_json(),
        "device": device,
        "experiments": experiments,
        "versions": versions(),
    }


def _check_built(
    definition: ExperimentDefinition, label: str, space: Any, seeds: list[int], setting: str
) -> None:
    try:
        definition.build(label, space, seeds)
    except TypeError as error:
        raise ValueError(
            f"Expected {label!r} of {definition.name!r} to take the arguments of the setting "
            f"{setting!r}. Got {error}."
        ) from error


def _marks(number: int) -> str:
    return ", ".join("?" * number)
