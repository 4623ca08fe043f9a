import collections
import contextlib
import dataclasses
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import (
    Block,
    Campaign,
    CampaignStore,
    ExperimentRecords,
    Series,
    StoreError,
    records_by_series,
)
from botorch_risk_bench.campaigns import store as module
from botorch_risk_bench.campaigns.claims import claim
from botorch_risk_bench.campaigns.database import NoResultsError, snapshot
from botorch_risk_bench.campaigns.worker import Failure, Report, advance
from botorch_risk_bench.reports import campaign_markdown, read_board, write_table

from bench.tests.campaigns.small import MODULE, run_here, small, task
from bench.tests.experiments import noisy_quadratic
from bench.tests.experiments.noisy_quadratic import QUADRATIC
from bench.tests.played import bytes_of, change


@pytest.fixture(scope="module")
def report() -> Report:
    return advance(task(small()))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CampaignStore]:
    with CampaignStore(tmp_path / "a.sqlite", small()) as opened:
        yield opened


def contents(store: CampaignStore) -> list[Any]:
    r"""All that a store says."""
    blocks = store.blocks()
    rows = [list(read()) for read in (store.rows, store.timings, store.reports)]
    return [blocks, [store.progress(block) for block in blocks], *rows]


def part_of(report: Report, last: int) -> Report:
    rows = [row for row in report.rows if row.round <= last]
    return dataclasses.replace(report, rows=rows, last_round=last)


def test_what_is_reported_twice_is_there_once(store: CampaignStore, report: Report) -> None:
    assert store.commit(part_of(report, 1)) == 2
    assert store.commit(report) == 2
    before = bytes_of(store.path)
    assert store.commit(report) == 0
    assert store.commit(part_of(report, 1)) == 0  # of a worker that was cut off for a while
    assert bytes_of(store.path) == before
    assert store.progress(report.block).last_round == 3
    assert [row[3:5] for row in store.rows()] == [(s, r) for s in (3, 4) for r in range(4)]
    assert next(store.select("SELECT count(*) FROM timings")) == (4,)


def test_workers_that_disagree_are_found(store: CampaignStore, report: Report) -> None:
    store.commit(part_of(report, 1))
    before = bytes_of(store.path)
    other = [row._replace(X=row.X.replace("0.", "0.1", 1)) for row in report.rows]
    with pytest.raises(StoreError, match="round 0 of quadratic, averse, default, seeds 3 to 4"):
        store.commit(dataclasses.replace(report, rows=other))
    assert bytes_of(store.path) == before


def test_failures_are_kept_and_forgotten(store: CampaignStore, report: Report) -> None:
    failure = Failure(2, "FloatingPointError: no", "Traceback")
    store.commit(dataclasses.replace(part_of(report, 1), failure=failure))
    found = store.progress(report.block)
    assert (found.last_round, found.failure) == (1, failure)
    store.forget_failure(report.block)
    assert store.progress(report.block).failure is None


@pytest.mark.parametrize(
    ("statement", "read", "name"),
    [
        (
            "UPDATE rounds SET recommended_objective = '9.0' WHERE round = 2",
            lambda store, block: list(store.rows()),
            "round 2 of quadratic, averse, default, seed 3",
        ),
        (
            "UPDATE blocks SET round = 2",
            lambda store, block: store.progress(block),
            "the state of quadratic, averse, default, seeds from 3",
        ),
        (
            "UPDATE timings SET tell_seconds = 9 WHERE round = 1",
            lambda store, block: list(store.timings()),
            "the times of round 1 of quadratic, averse, default, seeds from 3",
        ),
        (
            "UPDATE failures SET cause = 'none of ours'",
            lambda store, block: store.progress(block),
            "the failure of quadratic, averse, default, seeds from 3",
        ),
        (
            "UPDATE reports SET cpu_seconds = 0",
            lambda store, block: list(store.reports()),
            "a report of quadratic, averse, default, seeds from 3",
        ),
    ],
    ids=["rounds", "blocks", "timings", "failures", "reports"],
)
def test_a_row_that_was_changed_is_found_in_each_table(
    store: CampaignStore,
    report: Report,
    statement: str,
    read: Callable[[CampaignStore, Block], Any],
    name: str,
) -> None:
    store.commit(dataclasses.replace(report, failure=Failure(3, "no")))
    store.close()
    with CampaignStore(store.path) as opened:
        read(opened, report.block)
    change(store.path, statement)
    with (
        CampaignStore(store.path) as opened,
        pytest.raises(StoreError, match=f"Expected {name} in .* to be intact"),
    ):
        read(opened, report.block)


def test_no_flipped_bit_of_80_makes_another_table(path: Path) -> None:
    with CampaignStore(path) as store:
        whole = contents(store)
    data, stream, seen = path.read_bytes(), random.Random(0), collections.Counter[str]()
    for count in range(80):
        flipped = bytearray(data)
        flipped[stream.randrange(4096 if count % 2 else len(data))] ^= 1 << stream.randrange(8)
        path.write_bytes(flipped)
        try:
            with CampaignStore(path) as store:
                seen["same" if contents(store) == whole else "other values"] += 1
        except StoreError:
            seen["StoreError"] += 1
    assert seen["StoreError"] > 10 and seen["other values"] == 0


ALL = "experiment = 'quadratic' AND strategy = 'averse' AND setting = 'default'"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"DELETE FROM rounds WHERE {ALL} AND seed = 4 AND round = 1", "round 1 of .*, seed 4 in"),
        (f"DELETE FROM rounds WHERE {ALL} AND seed = 7 AND round = 3", "round 3 of .*, seed 7 in"),
        (
            f"DELETE FROM rounds WHERE {ALL} AND seed = 3",
            "round 0 of .*, seed 3; round 1 .*round 3",
        ),
        (f"DELETE FROM rounds WHERE {ALL} AND seed > 3", "round 0 of .*, seed 4; .*; 12 more in"),
        (f"DELETE FROM rounds WHERE {ALL}", "round 0 of .*, seed 3; .*; 16 more in"),
        (f"DELETE FROM blocks WHERE {ALL}", "a block that has played round 0 of .*; 16 more in"),
        (f"DELETE FROM timings WHERE {ALL} AND round = 0", "times of round 0 of .*, seeds from 3"),
        (
            "UPDATE rounds SET seed = x'00' WHERE seed = 4",
            "an intact store. Got a row with the key",
        ),
    ],
)
def test_rows_that_are_missing_are_named_by_all_that_reads_them(
    statement: str, message: str, path: Path, tmp_path: Path
) -> None:
    change(path, statement)
    with CampaignStore(path) as store:
        for read in (
            campaign_markdown,
            read_board,
            lambda store: write_table(store, tmp_path / "a.csv"),
            lambda store: records_by_series(store, "quadratic"),
            lambda store: ExperimentRecords(store, "quadratic"),
        ):
            with pytest.raises(StoreError, match=message) as error:
                read(store)
            assert not isinstance(error.value, NoResultsError)
    assert not (tmp_path / "a.csv").exists()


def test_nothing_is_written_between_the_reads_of_one_moment(
    store: CampaignStore, report: Report
) -> None:
    store.commit(part_of(report, 1))
    writer = sqlite3.connect(store.path, timeout=0.0, isolation_level=None)
    with CampaignStore(store.path) as reader, snapshot(reader._connection, reader.path):
        assert len(list(reader.rows())) == 4
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            writer.executescript("BEGIN IMMEDIATE; DELETE FROM rounds; COMMIT")
    writer.close()
    assert store.commit(report) == 2


def test_a_store_of_another_format_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    for campaign in (None, small()):
        with pytest.raises(StoreError, match=r"Expected schema 3 .* Got schema 2, which this ver"):
            CampaignStore(path, campaign)
    assert path.read_bytes() == before


def test_what_is_left_open_is_spelled_out_in_the_store(tmp_path: Path) -> None:
    campaign = small(strategies=(), num_rounds=None)
    with CampaignStore(tmp_path / "a.sqlite", campaign) as store:
        assert store.blocks() == campaign.blocks()
        (series,) = store.identity["spelled_out"]
    assert series["strategies"] == list(QUADRATIC.strategies)
    assert series["num_rounds"] == QUADRATIC.num_rounds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: dataclasses.replace(c, name="other"), "campaign.name='small' there, 'other'"),
        (lambda c: small(num_rounds=9), r"campaign.series\[0\].num_rounds=3 there, 9 here"),
        (lambda c: dataclasses.replace(c, block_size=5), "campaign.block_size=2 there, 5 here"),
        (
            lambda c: small(settings={"default": {}, "more": {"num_repeats": 6}}),
            "settings.more.num_repeats=5 there, 6 here.*quadratic.more.num_repeats=5 there",
        ),
    ],
)
def test_another_description_is_refused_by_what_differs(
    store: CampaignStore, change: Callable[[Campaign], Campaign], message: str
) -> None:
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match=message):
        CampaignStore(store.path, change(small()))
    assert store.path.read_bytes() == before


def test_other_versions_are_refused_by_name(
    store: CampaignStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "versions", lambda: {"torch": "9.9"})
    with pytest.raises(StoreError, match=r"versions.torch='.*' there, '9\.9' here"):
        CampaignStore(store.path, small())


def test_another_experiment_of_the_same_name_is_refused(
    store: CampaignStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(noisy_quadratic.QUADRATIC, objective="mean")
    monkeypatch.setattr(noisy_quadratic, "EXPERIMENTS", (other,))
    with pytest.raises(StoreError, match=r"objective='mean - variance \[1\]' there, 'mean' here"):
        CampaignStore(store.path, small())


def test_the_optimum_is_the_one_that_was_last_given(
    store: CampaignStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noisy_quadratic.NoisyQuadratic, "optimal_value", -0.5)
    with CampaignStore(store.path, small()) as again:
        assert again.identity_in("quadratic", "more")["optimal_value"] == -0.5
    assert store.identity_in("quadratic", "more")["optimal_value"] == -0.5


def test_strategies_that_do_not_take_a_setting_are_found_at_once(tmp_path: Path) -> None:
    campaign = small(settings={"wrong": {"strategy": {"colour": "red"}}})
    with pytest.raises(ValueError, match=r"'averse' of 'quadratic' .* 'wrong'.*'colour'"):
        CampaignStore(tmp_path / "b.sqlite", campaign)
    assert not (tmp_path / "b.sqlite").exists()


def more_of_it() -> Campaign:
    first = small(num_rounds=4).series[0]
    second = Series("quadratic", "averse", num_seeds=1, first_seed=20, num_rounds=2)
    return Campaign("small", [first, second], block_size=2, modules=(MODULE,))


def test_an_extended_campaign_is_that_which_was_run_at_once(tmp_path: Path) -> None:
    run_here(small(), tmp_path / "a.sqlite")
    with CampaignStore(tmp_path / "a.sqlite", more_of_it(), extend=True) as store:
        assert store.campaign.to_json() == more_of_it().to_json()
    run_here(more_of_it(), tmp_path / "a.sqlite")
    run_here(more_of_it(), tmp_path / "b.sqlite")
    assert bytes_of(tmp_path / "a.sqlite") == bytes_of(tmp_path / "b.sqlite")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_rounds": 2}, "default, seeds 3 to 4, with 3 rounds or more"),
        ({"num_seeds": 4}, "seeds 7, with 3 rounds or more. Got None"),
        ({"settings": {"default": {}, "more": {"num_repeats": 6}}}, "num_repeats=5 there, 6 here"),
    ],
)
def test_what_was_run_cannot_be_taken_back(
    store: CampaignStore, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(StoreError, match=message):
        CampaignStore(store.path, small(**change), extend=True)
    assert store.campaign.to_json() == small().to_json()


def test_a_full_disk_changes_nothing(store: CampaignStore, report: Report) -> None:
    store.commit(part_of(report, 0))
    before = bytes_of(store.path)
    pages = next(store.select("PRAGMA page_count"))[0]
    list(store.select(f"PRAGMA max_page_count = {pages}"))
    many = [row._replace(Y=row.Y + " " * 9000) for row in report.rows if row.round == 1]
    with pytest.raises(
        StoreError, match=r"Expected room for .*a\.sqlite on its disk. Got database or disk is full"
    ):
        store.commit(dataclasses.replace(report, rows=many, last_round=1))
    assert bytes_of(store.path) == before
    assert store.progress(report.block).last_round == 0
    list(store.select(f"PRAGMA max_page_count = {pages + 1000}"))
    assert store.commit(report) == 3


def test_files_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="File not found: "):
        CampaignStore(tmp_path / "gone.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "one.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
    with pytest.raises(StoreError, match=r"to be the store of a campaign\. Got another file"):
        CampaignStore(tmp_path / "one.sqlite")


def test_a_store_is_not_put_where_locks_do_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "check_local", lambda path: (_ for _ in ()).throw(StoreError("nfs4"))
    )
    with pytest.raises(StoreError, match="nfs4"):
        CampaignStore(tmp_path / "b.sqlite", small())
    assert not (tmp_path / "b.sqlite").exists()


def test_one_process_writes_at_a_time(store: CampaignStore) -> None:
    with claim(store.path), CampaignStore(store.path) as other:
        taken = pytest.raises(StoreError, match="no other process to write to")
        with taken, claim(other.path, wait_seconds=0.0):
            pass
        assert other.campaign.name == "small"  # but anybody reads


def test_an_experiment_that_the_campaign_has_not(store: CampaignStore) -> None:
    assert store.identity_in("quadratic", "more")["num_repeats"] == 5
    with pytest.raises(StoreError, match=r"\(quadratic, default; quadratic, more\)\. Got exp"):
        store.identity_in("sine", "default")
