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

from botorch_risk.strategies.arguments import from_json
from botorch_risk.strategies.states import sealed
from tests.ax.laboratory import play
from tests.strategies import trajectories
from tests.strategies.cases import STRATEGIES
from tests.strategies.quick import OF_BOTORCH

# At kinks of a risk a line search may end early, and BoTorch tries again.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Very small noise"),
    pytest.mark.filterwarnings("ignore:Low-rank cholesky"),
]
STORED = Path(__file__).with_name("stored")
ASKED: dict[str, list[Any]] = json.loads((STORED / "ax" / "asked.json").read_text())
TRAJECTORIES = trajectories.stored()
CASES = {case.name: case for case in STRATEGIES}  # of which a new one has nothing stored
# Fits to pseudo-data went afresh in each round then, and ascents to kinks took other steps: now and
# then another local maximum is found, as often a higher as a lower one.
MOVED = {
    "drbo_kde", "pseudo_data_gp_ucb", "ra_bo", "risk_search-chosen", "risk_search-mixed",
    "uhe_bo", "uhe_bo-mixed", "v_ucb",
}  # fmt: skip


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_a_state_is_taken_up(name: str) -> None:
    stored = TRAJECTORIES[name]["state"]
    strategy = CASES[name].build(trajectories.SEEDS)
    strategy.load_state_dict(sealed(stored))
    assert strategy.state_dict()["history"] == stored["history"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAJECTORIES)
def test_every_round_asks_for_what_it_asked_for_then(name: str) -> None:
    r"""BoTorch's line searches end elsewhere at kinks on another processor than the stored ones'.

    On one processor the code before the modules moved asks for the same to the last bit.
    """
    stored, strategy = TRAJECTORIES[name], CASES[name].build(trajectories.SEEDS)
    rounds = torch.tensor(stored["state"]["rounds"])
    X, Y = (from_json(stored["state"]["history"][name]) for name in ("X", "Y"))
    distances = []
    for index in rounds.unique():
        asked, told = strategy.ask(), X[:, rounds == index]
        expected = told[..., : asked.shape[-1]]
        assert torch.equal(asked.isnan(), expected.isnan())
        distances.append((asked - expected).abs())
        strategy.tell(told, Y[:, rounds == index])
    distances.append((strategy.ask() - from_json(stored["next"])).abs())
    away = torch.cat([each.nan_to_num().amax(dim=-1) for each in distances], dim=-1)
    if CASES[name].make in OF_BOTORCH:
        assert (away < 1e-3).double().mean() > 0.95
    elif name in MOVED:
        assert (away < 1e-3).double().mean() > 0.9
    else:
        assert away.max() < 1e-6


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
