r"""Find what is damaged or missing in a store, and make room for playing it again.

A row is damaged if it does not fit its checksum. A round, its times or the state of a block is
missing if the block has begun without it; a report or a failure, if the tally of the block counts
more than there are.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from botorch_risk_bench.campaigns.database import Key, checksum, gaps, is_key
from botorch_risk_bench.campaigns.description import Block
from botorch_risk_bench.campaigns.schema import (
    COLUMNS,
    IS_BLOCK,
    IS_KEY,
    NAMED,
    PRIMARY,
    count_again,
)
from botorch_risk_bench.campaigns.worker import Failure

_CHANGED = "it does not fit its checksum"
_MISSING = "it is missing"
_FOREIGN = "no block of the campaign has played it"
_MOST_GAPS = 10_000  # that are named of one table; a damaged number may ask for any
PLAYED = ("blocks", "rounds", "timings")  # what is whole only together


class Damage(NamedTuple):
    r"""Something that is damaged or missing.

    Attributes:
        name: What it is.
        why: What is wrong with it.
        table: The table that has, or should have, the row.
        block: The block of the row, if the campaign has this block.
        row: The columns of the row; None if it is missing.
    """

    name: str
    why: str
    table: str
    block: Block | None
    row: Key | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass
class Survey:
    r"""What a store holds.

    Args:
        damages: What is damaged or missing. The rest comes from intact rows.
        last_rounds: The last round of each block that has begun.
        failures: Why blocks have failed.
        reports: The machine, the time and the memory of each report.
    """

    damages: list[Damage] = field(default_factory=list)
    last_rounds: dict[Block, int] = field(default_factory=dict)
    failures: dict[Block, Failure] = field(default_factory=dict)
    reports: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def to_play_again(self) -> list[Block]:
        r"""The blocks whose rounds, times or states are damaged."""
        found = (each.block for each in self.damages if each.table in PLAYED)
        return list(dict.fromkeys(block for block in found if block is not None))


def survey(connection: sqlite3.Connection, blocks: Sequence[Block]) -> Survey:
    r"""Read all of a store, and compare it with itself and with the blocks of its campaign."""
    found = Survey()
    before = connection.text_factory
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        _Surveyor(connection, blocks, found).look()
    finally:
        connection.text_factory = before
    return found


class _Surveyor:
    r"""Looks at one table after the other."""

    def __init__(
        self, connection: sqlite3.Connection, blocks: Sequence[Block], found: Survey
    ) -> None:
        self.connection, self.found = connection, found
        self.blocks = {block.key: block for block in blocks}
        self.by_seed = {(*block.series, seed): block for block in blocks for seed in block.seeds}

    def look(self) -> None:
        begun = list(self._begun())
        for table in ("rounds", "timings"):
            self._look_for_gaps(table, begun)
        counted = {row[:4]: row[4:] for row, is_intact in self._rows("tallies") if is_intact}
        reports = Counter[Key]()
        for row, is_intact in self._rows("reports"):
            reports[row[:4]] += 1
            if is_intact:
                self.found.reports.append(row)
        failed = set()
        for row, is_intact in self._rows("failures"):
            failed.add(row[:4])
            if is_intact and (block := self.blocks.get(row[:4])) is not None:
                self.found.failures[block] = Failure(*row[4:7])
        self._compare_tallies(counted, reports, failed)

    def _rows(self, table: str) -> Iterator[tuple[Key, bool]]:
        r"""The rows of a table with whether each is intact; notes those that are not."""
        order = f" ORDER BY {PRIMARY[table]}" if PRIMARY[table] else ""
        query = f"SELECT {COLUMNS[table]}, checksum FROM {table}{order}"
        for *cells, stored in self.connection.execute(query):
            row = tuple(cells)
            is_intact = stored == checksum(*row)
            if not is_intact:
                self._note(table, row, _CHANGED, row)
            yield row, is_intact

    def _note(self, table: str, key: Key, why: str, row: Key | None = None) -> None:
        owner = (self.by_seed if table == "rounds" else self.blocks).get(key[:4])
        name = NAMED[table].format(*key)
        self.found.damages.append(Damage(name, why, table, owner, row))

    def _begun(self) -> Iterator[Key]:
        for row, is_intact in self._rows("blocks"):
            block = self.blocks.get(row[:4])
            if not is_intact:
                continue
            if block is None or row[4] != len(block.seeds) or not 0 <= row[6] <= block.num_rounds:
                self._note("blocks", row, _FOREIGN, row)
                continue
            self.found.last_rounds[block] = row[6]
            yield (*row[:5], row[6])

    def _look_for_gaps(self, table: str, begun: list[Key]) -> None:
        damaged: set[Key] = set()

        def keys() -> Iterator[Key]:
            for row, is_intact in self._rows(table):
                if is_key(key := row[:5]):
                    if not is_intact:
                        damaged.add(key)
                    yield key

        owners = self.by_seed if table == "rounds" else self.blocks
        stateless = set()
        for key, is_missing in islice(gaps(table, begun, keys()), _MOST_GAPS):
            owner = owners.get(key[:4])
            if is_missing:
                self._note(table, key, _MISSING)
            elif key in damaged:  # it is named already
                continue
            elif owner is None or owner in self.found.last_rounds:
                self._note(table, key, _FOREIGN, key)
            else:
                stateless.add(owner)
        said = {each.block for each in self.found.damages if each.table == "blocks"}
        for block in sorted(stateless - said):
            self._note("blocks", block.key, _MISSING)

    def _compare_tallies(
        self, counted: Mapping[Key, Key], reports: Counter[Key], failed: set[Key]
    ) -> None:
        named = {
            each.row[:4] for each in self.found.damages if each.table == "tallies" and each.row
        }
        begun = {block.key for block in self.found.last_rounds}
        there = {key for key in reports.keys() | failed | begun if key in self.blocks}
        for key in sorted((counted.keys() | there) - named, key=repr):
            if key not in counted:
                self._note("tallies", key, _MISSING)
                continue
            num_reports, has_failed = counted[key]
            for _ in range(min(num_reports - reports[key], _MOST_GAPS)):
                self._note("reports", key, _MISSING)
            if reports[key] > num_reports:
                self._note("tallies", key, f"it counts {num_reports} of {reports[key]} reports")
            if has_failed and key not in failed:
                self._note("failures", key, _MISSING)
            if key in failed and not has_failed:
                self._note("tallies", key, "it counts no failure")


def forget(connection: sqlite3.Connection, found: Survey) -> None:
    r"""Delete what is damaged, and all of the blocks that have to be played again."""
    for each in found.damages:
        if each.row is not None:
            _delete(connection, each.table, each.row)
    for block in found.to_play_again:
        for table in ("blocks", "timings", "failures"):
            connection.execute(f"DELETE FROM {table} WHERE {IS_BLOCK}", block.key)
        seeds = block.seeds[0], block.seeds[-1]
        clause = f"{IS_KEY} AND seed BETWEEN ? AND ?"
        connection.execute(f"DELETE FROM rounds WHERE {clause}", (*block.series, *seeds))
    count_again(connection)


def _delete(connection: sqlite3.Connection, table: str, row: Key) -> None:
    r"""Delete a row by its key, whatever is in its cells."""
    names = (PRIMARY[table] or COLUMNS[table]).split(", ")
    values = [
        cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else cell
        for cell in row[: len(names)]
    ]
    clauses = [
        f"CAST({name} AS BLOB) = ?" if isinstance(cell, str) else f"{name} IS ?"
        for name, cell in zip(names, row, strict=False)
    ]
    connection.execute(f"DELETE FROM {table} WHERE {' AND '.join(clauses)}", values)
