from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from botorch_risk.experiments import ExperimentStore, StoreError
from botorch_risk.experiments.campaigns import Campaign, CampaignStore, Series
from botorch_risk.experiments.campaigns import results as module
from botorch_risk.experiments.campaigns.worker import Failure, Report, advance
from tests.experiments.campaigns.small import MODULE, bytes_of, run_here, small, task


@pytest.fixture(scope="module")
def report() -> Report:
    return advance(task(small()))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CampaignStore]:
    with CampaignStore(tmp_path / "a.sqlite", small()) as opened:
        yield opened


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


def test_a_row_that_was_changed_is_found(store: CampaignStore, report: Report) -> None:
    store.commit(report)
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE rounds SET recommended_objective = '9.0' WHERE round = 2")
    connection.execute("UPDATE blocks SET round = 2")
    connection.commit()
    connection.close()
    with CampaignStore(store.path) as opened:
        with pytest.raises(StoreError, match=r"round 2 of \('quadratic', 'averse', 'default', 3\)"):
            list(opened.rows())
        with pytest.raises(StoreError, match=r"the state of quadratic, averse.* to be intact"):
            opened.progress(report.block)


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
    monkeypatch.setattr("tests.experiments.noisy_quadratic.NoisyQuadratic.optimal_value", -0.5)
    with pytest.raises(StoreError, match=r"optimal_value=-0\.01 there, -0\.5 here"):
        CampaignStore(store.path, small())


def test_strategies_that_do_not_take_a_setting_are_found_at_once(tmp_path: Path) -> None:
    campaign = small(settings={"wrong": {"strategy": {"colour": "red"}}})
    with pytest.raises(ValueError, match=r"'averse' of 'quadratic' to take .* 'wrong'.*'colour'"):
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
    with pytest.raises(StoreError, match="Got database or disk is full"):
        store.commit(dataclasses.replace(report, rows=many, last_round=1))
    assert bytes_of(store.path) == before
    assert store.progress(report.block).last_round == 0
    list(store.select(f"PRAGMA max_page_count = {pages + 1000}"))
    assert store.commit(report) == 3


def test_files_of_another_kind(tmp_path: Path, store: CampaignStore) -> None:
    with pytest.raises(StoreError, match="Got no such file"):
        CampaignStore(tmp_path / "gone.sqlite")
    with ExperimentStore(tmp_path / "one.sqlite", {"experiment": "sine"}):
        pass
    with pytest.raises(StoreError, match=r"to be the store of a campaign\. Got another file"):
        CampaignStore(tmp_path / "one.sqlite")
    with pytest.raises(StoreError, match=r"to be an experiment store\. Got another file"):
        ExperimentStore(store.path)


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
    with store.claim(), CampaignStore(store.path) as other:
        taken = pytest.raises(StoreError, match="no other process to run 'the campaign'")
        with taken, other.claim(wait_seconds=0.0):
            pass
        assert other.campaign.name == "small"  # but anybody reads


def test_an_experiment_that_the_campaign_has_not(store: CampaignStore) -> None:
    assert store.identity_in("quadratic", "more")["num_repeats"] == 5
    with pytest.raises(StoreError, match=r"\(quadratic, default; quadratic, more\)\. Got exp"):
        store.identity_in("sine", "default")
