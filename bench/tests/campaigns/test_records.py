import dataclasses
import json
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.campaigns import (
    Campaign,
    CampaignStore,
    ExperimentRecords,
    Series,
    StoreError,
    records_by_series,
)
from botorch_risk_bench.campaigns.worker import Row, advance

from bench.tests.campaigns.small import MODULE, run_here, small, task

SEEDS = range(3, 8)


def test_blocks_are_read_as_one_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    run_here(small(settings={"default": {}}), path)
    with CampaignStore(path) as store:
        records = ExperimentRecords(store)
        assert records.labels() == ["averse", "neutral"] and records.path == path
        assert records.identity["seeds"] == [3, 4, 5, 6, 7]
        rows = [row for row in store.rows("quadratic", "averse", "default") if row[4] == 2]
        took = [row[5:] for row in store.timings("quadratic", "averse", "default") if row[4] == 2]
        found = records.rounds("averse", first=2)
        assert [record.index for record in found] == [2, 3]
        assert found[0].X.tolist() == [json.loads(row[5]) for row in rows]
        assert found[0].Y.tolist() == [json.loads(row[6]) for row in rows]
        assert found[0].seconds == tuple(map(sum, zip(*took, strict=True)))


def test_one_of_several_experiments_is_named(tmp_path: Path) -> None:
    campaign = Campaign("two", [Series(("slow", "quadratic"))], modules=(MODULE,))
    with (
        CampaignStore(tmp_path / "a.sqlite", campaign) as store,
        pytest.raises(StoreError, match=r"one experiment in .* Got \['slow', 'quadratic'\]"),
    ):
        ExperimentRecords(store)


def test_seeds_and_rounds_that_some_lack_are_left_out(tmp_path: Path) -> None:
    campaign = small(settings={"default": {}})
    with CampaignStore(tmp_path / "a.sqlite", campaign) as store:
        for number, last in ((0, 3), (1, 1), (3, 2)):  # averse 3, 4 and 5, 6; neutral 3, 4
            report = advance(task(campaign, number))
            rows = [row for row in report.rows if row.round <= last]
            store.commit(dataclasses.replace(report, rows=rows, last_round=last))
        records = ExperimentRecords(store, "quadratic")
        assert records.identity["seeds"] == [3, 4]
        assert len(records.rounds("averse")) == 4 and len(records.rounds("neutral")) == 3
        alone = ExperimentRecords(store, "quadratic", strategies=("averse",))
        assert alone.identity["seeds"] == [3, 4, 5, 6]
        assert len(alone.rounds("averse")) == 2


def test_sets_of_several_sizes_are_filled_with_nan(tmp_path: Path) -> None:
    campaign = small(settings={"default": {}})
    with CampaignStore(tmp_path / "a.sqlite", campaign) as store:
        report = advance(task(campaign))
        sets = {3: "[[0.1, 0.2]]", 4: "[[0.3, 0.4], [0.5, 0.6]]"}
        rows: list[Row] = [row._replace(recommendation=sets[row.seed]) for row in report.rows]
        store.commit(dataclasses.replace(report, rows=rows))
        found = ExperimentRecords(store, "quadratic").rounds("averse")[0].recommendation
    assert found is not None and found.shape == (2, 2, 2)
    assert found[0, 1].isnan().all() and found.nansum() == pytest.approx(2.1)
    assert found.dtype == torch.double


def test_each_series_keeps_its_seeds(tmp_path: Path) -> None:
    series = [
        Series("quadratic", "averse", num_seeds=3, num_rounds=1),
        Series("quadratic", "neutral", num_seeds=1, num_rounds=1),
        Series("quadratic", "averse", settings={"more": {"num_repeats": 5}}, num_rounds=1),
    ]
    campaign = Campaign("two", series, modules=(MODULE,))
    with CampaignStore(tmp_path / "a.sqlite", campaign) as store:
        assert records_by_series(store, "quadratic") == []
        store.commit(advance(task(campaign)))
        assert [each.labels() for each in records_by_series(store, "quadratic")] == [["averse"]]
        store.commit(advance(task(campaign, 1)))
        found = records_by_series(store, "quadratic")
        assert [(each.labels(), each.identity["seeds"]) for each in found] == [
            (["averse"], [0, 1, 2]),
            (["neutral"], [0]),
        ]
        assert records_by_series(store, "quadratic", "more") == []
        assert records_by_series(store, "sine") == []


def test_nothing_in_common(tmp_path: Path) -> None:
    first = Series("quadratic", "averse", num_seeds=1)
    other = Series("quadratic", "neutral", num_seeds=1, first_seed=5)
    campaign = Campaign("apart", [first, other], modules=(MODULE,))
    nothing = pytest.raises(StoreError, match=r"'quadratic', 'default' have begun in .* Got {}")
    with CampaignStore(tmp_path / "a.sqlite", campaign) as store, nothing:
        ExperimentRecords(store, "quadratic")
    run_here(campaign, tmp_path / "a.sqlite")
    apart = pytest.raises(StoreError, match=r"Got {'averse': \[0\], 'neutral': \[5\]}")
    with CampaignStore(tmp_path / "a.sqlite") as store, apart:
        ExperimentRecords(store, "quadratic")
