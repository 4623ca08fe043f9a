r"""Read stores of a single experiment, which version 0.1 wrote.

They have one row per strategy and one per round, with tensors as the bytes of `torch.save`. Each
value and each row has a checksum.
"""

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch

from botorch_risk_bench.campaigns.database import (
    StoreError,
    check_row,
    checksum,
    clear_errors,
    connect,
    read_identity,
)
from botorch_risk_bench.campaigns.description import Block, Campaign, Series
from botorch_risk_bench.campaigns.journal import RoundRecord
from botorch_risk_bench.campaigns.schema import version_of
from botorch_risk_bench.campaigns.worker import Report, rows_of

_APPLICATION_ID, _VERSION = b"BRX1", 2
_ROUND = (
    "label, round, X, Y, objective, recommendation, recommended_objective, "
    "ask_seconds, evaluate_seconds, tell_seconds"
)


class FormerStore(NamedTuple):
    r"""The store as a campaign and the reports of its workers.

    Attributes:
        campaign: The strategies as far as they were run.
        experiment: What distinguishes the experiment from any other.
        reports: The completed rounds of each strategy.
    """

    campaign: Campaign
    experiment: dict[str, Any]
    device: str
    version: str
    reports: list[Report]


def read_former(path: Path) -> FormerStore | None:
    r"""Read a store of one experiment; None for any other file.

    Outcomes of an incomplete round are skipped: they are drawn again from the same streams.
    """
    if not path.is_file() or _application_of(path) != _APPLICATION_ID:
        return None
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with clear_errors(path), closing(connect(uri)) as connection:
        if (version := version_of(connection)) != _VERSION:
            raise StoreError(f"Expected schema {_VERSION} in {path}. Got schema {version}.")
        identity = read_identity(connection, path)
        seeds, device, package = (identity.pop(k) for k in ("seeds", "device", "package_version"))
        if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
            raise StoreError(f"Expected consecutive seeds in {path}. Got {seeds=}.")
        name, series, reports = identity["experiment"], [], []
        query = "SELECT label, kind, round, state, checksum FROM strategies ORDER BY rowid"
        for label, kind, last, state, stored in connection.execute(query).fetchall():
            check_row(f"the state of {label!r}", path, (label, kind, last, state), stored)
            query = f"SELECT {_ROUND}, checksum FROM rounds WHERE label = ? ORDER BY round"
            rows = connection.execute(query, (label,)).fetchall()
            records = [_record(row, path) for row in rows[: last + 1]]
            if [record.index for record in records] != list(range(last + 1)):
                found = [record.index for record in records]
                raise StoreError(f"Expected rounds 0 to {last} of {label!r} in {path}. Got {found}")
            block = Block(name, label, "default", tuple(seeds), max(last, 1))
            series.append(Series(name, label, len(seeds), seeds[0], block.num_rounds))
            if records:
                played = [row for record in records for row in rows_of(record, block.seeds)]
                took = {record.index: record.seconds for record in records}
                text = json.dumps(_decoded(state))
                reports.append(Report(block, kind, played, took, last, text))
    return FormerStore(Campaign(name, series, len(seeds)), identity, device, package, reports)


def _application_of(path: Path) -> bytes:
    r"""Read the application's four bytes from the header of an SQLite file."""
    with path.open("rb") as file:
        return file.read(72)[68:]


def _record(row: tuple[Any, ...], path: Path) -> RoundRecord:
    *values, stored = row
    label, index, *blobs = values[:7]
    check_row(f"round {index} of {label!r}", path, values, stored)
    return RoundRecord(index, tuple(values[7:]), *map(_decoded, blobs))


def _decoded(blob: bytes | None) -> Any:
    r"""Decode tensors and plain Python values, without running pickled code."""
    if blob is None:
        return None
    payload = blob[16:]
    if checksum(payload) != blob[:16]:
        raise StoreError(f"Expected stored bytes that fit their checksum. Got {len(blob)} others.")
    return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
