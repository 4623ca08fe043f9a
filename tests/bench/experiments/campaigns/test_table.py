from __future__ import annotations

import csv
import dataclasses
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.experiments.campaigns import CampaignStore, campaign_markdown, write_table
from botorch_risk_bench.experiments.campaigns.table import COLUMNS
from botorch_risk_bench.experiments.campaigns.worker import advance

from tests.bench.experiments.campaigns.small import small, task


def test_a_line_for_each_round_of_each_seed(path: Path, tmp_path: Path) -> None:
    with CampaignStore(path) as store:
        assert write_table(store, tmp_path / "a.csv") == 2 * 2 * 5 * 4
        stored = [float(row[9]) for row in store.rows()]
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file))
    assert tuple(header) == COLUMNS
    assert [float(line[5]) for line in lines] == stored  # to the last digit
    assert all(float(line[6]) == -0.01 - float(line[5]) for line in lines)
    assert lines[0][:5] == ["quadratic", "default", "averse", "3", "0"]


def test_a_disk_that_is_full_leaves_a_good_table_alone(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "a.csv"
    with CampaignStore(path) as store:
        write_table(store, table)
        whole, rows = table.read_text(), list(store.rows())

        def until_full(*series: str) -> Iterator[tuple[Any, ...]]:
            yield from rows[:40]
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(store, "rows", until_full)
        with pytest.raises(OSError, match="No space left"):
            write_table(store, table)
    assert table.read_text() == whole
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.csv", "a.sqlite"]


def test_unknown_objectives_are_empty(tmp_path: Path) -> None:
    with CampaignStore(tmp_path / "a.sqlite", small()) as store:
        report = advance(task(small()))
        rows = [row._replace(recommended_objective=None) for row in report.rows]
        store.commit(dataclasses.replace(report, rows=rows))
        write_table(store, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == "quadratic,default,averse,3,0,,"


def test_a_page_with_every_setting(path: Path, tmp_path: Path) -> None:
    with CampaignStore(tmp_path / "b.sqlite", small()) as store:
        assert campaign_markdown(store).count("No table: Expected seeds that all") == 2
    with CampaignStore(path) as store:
        page = campaign_markdown(store)
    assert page.count("# quadratic: regret after 3 rounds") == 2
    assert page.index("Setting: default.") < page.index("Setting: more.")
    assert "| averse | " in page
