from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

from botorch_risk.experiments.campaigns import CampaignStore, campaign_markdown, write_table
from botorch_risk.experiments.campaigns.table import COLUMNS
from botorch_risk.experiments.campaigns.worker import advance
from tests.experiments.campaigns.small import run_here, small, task


def test_a_line_for_each_round_of_each_seed(tmp_path: Path) -> None:
    run_here(small(), tmp_path / "a.sqlite")
    with CampaignStore(tmp_path / "a.sqlite") as store:
        assert write_table(store, tmp_path / "a.csv") == 2 * 2 * 5 * 4
        stored = [float(row[9]) for row in store.rows()]
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file))
    assert tuple(header) == COLUMNS
    assert [float(line[5]) for line in lines] == stored  # to the last digit
    assert all(float(line[6]) == -0.01 - float(line[5]) for line in lines)
    assert lines[0][:5] == ["quadratic", "default", "averse", "3", "0"]


def test_unknown_objectives_are_empty(tmp_path: Path) -> None:
    with CampaignStore(tmp_path / "a.sqlite", small()) as store:
        report = advance(task(small()))
        rows = [row._replace(recommended_objective=None) for row in report.rows]
        store.commit(dataclasses.replace(report, rows=rows))
        write_table(store, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == "quadratic,default,averse,3,0,,"


def test_a_page_with_every_setting(tmp_path: Path) -> None:
    with CampaignStore(tmp_path / "a.sqlite", small()) as store:
        assert campaign_markdown(store).count("No table: Expected seeds that all") == 2
    run_here(small(), tmp_path / "a.sqlite")
    with CampaignStore(tmp_path / "a.sqlite") as store:
        page = campaign_markdown(store)
    assert page.count("# quadratic: regret after 3 rounds") == 2
    assert page.index("Setting: default.") < page.index("Setting: more.")
    assert "| averse | " in page
