r"""What was stored before the modules moved goes on today.

The files in `stored/` were written then: by `botorch-risk run sine --strategy RAHBO --replicates 2
--rounds 3`, by `botorch-risk campaign run campaign.yaml`, which was killed in the last of its three
blocks, and by Ax's `save_to_json_file` after four trials.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.client import Client
from botorch_risk_bench.campaigns import (
    Campaign,
    CampaignStore,
    ExperimentRecords,
    Options,
    Serial,
    run_campaign,
    run_experiment,
)

from tests.ax.laboratory import play

pytestmark = [
    pytest.mark.filterwarnings("ignore:Very small noise"),
    pytest.mark.filterwarnings("ignore:Low-rank cholesky"),
]
STORED = Path(__file__).with_name("stored")
ASKED: dict[str, list[Any]] = json.loads((STORED / "ax" / "asked.json").read_text())


@pytest.mark.parametrize("name", ASKED)
def test_an_experiment_of_ax_goes_on(name: str) -> None:
    client = Client.load_from_json_file(str(STORED / "ax" / f"{name}.json"))
    for found, expected in zip(play(client, 6, first=4), ASKED[name], strict=True):
        assert found == pytest.approx(expected, abs=1e-5)


def test_an_experiment_goes_on(tmp_path: Path) -> None:
    shutil.copy(STORED / "experiment.sqlite", tmp_path / "old.sqlite")
    for name in ("old", "new"):
        path, labels = tmp_path / f"{name}.sqlite", ["RAHBO"]
        run_experiment("sine", path, 2, strategies=labels, num_rounds=5, progress=False)
    first, second = (CampaignStore(tmp_path / f"{name}.sqlite") for name in ("old", "new"))
    with first, second:
        old, new = ExperimentRecords(first), ExperimentRecords(second)
        for found, expected in zip(old.rounds("RAHBO"), new.rounds("RAHBO"), strict=True):
            torch.testing.assert_close(found.X, expected.X)


def test_a_campaign_goes_on(tmp_path: Path) -> None:
    shutil.copy(STORED / "campaign.sqlite", tmp_path / "old.sqlite")
    campaign = Campaign.read(STORED / "campaign.yaml")
    for name in ("old", "new"):
        failed = run_campaign(
            campaign, tmp_path / f"{name}.sqlite", Serial(), Options(progress=False)
        )
        assert failed == 0
    query = "SELECT seed, round, objective FROM rounds ORDER BY seed, round"
    first, second = (CampaignStore(tmp_path / f"{name}.sqlite") for name in ("old", "new"))
    with first as old, second as new:
        for found, expected in zip(old.select(query), new.select(query), strict=True):
            assert found[:2] == expected[:2]
            assert json.loads(found[2]) == pytest.approx(json.loads(expected[2]), abs=1e-6)
