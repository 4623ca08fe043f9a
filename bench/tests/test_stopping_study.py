r"""The replay of stored rounds: stops, errors and the factor, by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.campaigns import Campaign, Options, Serial, Series, run_campaign
from botorch_risk_bench.campaigns.store import CampaignStore

from bench.studies.stopping import known, replay
from botorch_risk.test_functions import PosteriorMeanFunctions

LEVELS = len(replay.LEVELS)


def row(gaps: list[float], regrets: list[float], first: float = 1.0) -> dict[str, Any]:
    r"""Two runs alike, of six looks."""
    quantiles = [[[gap, gap] for _ in range(LEVELS)] for gap in gaps]
    return {
        "pair": "a",
        "quantiles": quantiles,
        "regret": [[regret, regret] for regret in regrets],
        "first": [first, first],
    }


def test_a_run_stops_at_the_first_gap_within_epsilon() -> None:
    gaps = [0.5, 0.25, 0.2, 0.05, 0.2, 0.0]
    right = row(gaps, [0.4, 0.2, 0.1, 0.05, 0.0, 0.0])
    number, wrong, looks = replay.stops([right], share=0.3, factor=1.0)
    assert (number, wrong, looks.tolist()) == (2, 0, [1, 1])
    number, wrong, looks = replay.stops([right], share=0.1, factor=2.0)
    assert (number, wrong, looks.tolist()) == (2, 0, [3, 3])
    number, wrong, looks = replay.stops([right], share=0.03, factor=1.0)
    assert (number, wrong, looks.tolist()) == (2, 0, [5, 5])
    number, wrong, looks = replay.stops([right], share=0.2, factor=1.0, in_a_row=2)
    assert (number, wrong, looks.tolist()) == (2, 0, [3, 3])  # 0.2 and 0.05
    never = row([1.0] * 6, [0.5] * 6)
    assert replay.stops([never], share=0.3, factor=1.0)[0] == 0


def test_a_stop_with_a_larger_regret_is_wrong_and_asks_for_a_factor() -> None:
    hasty = row([0.18, 0.18, 0.02, 0.01, 0.0, 0.0], [0.9, 0.5, 0.2, 0.1, 0.0, 0.0])
    assert replay.stops([hasty], share=0.3, factor=1.0)[:2] == (2, 2)
    assert replay.calibrated([hasty], share=0.3) == 2.0  # it then stops at the third look
    assert replay.calibrated([row([0.0] * 6, [1.0] * 6)], share=0.3) == float("inf")
    page = replay.summary([hasty, hasty])
    assert "| 0.3 | all | 1.0 | 4 of 4 | 1.000 (" in page and "{0.3: 2.0" in page
    widened = "| 5 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 | 1.000 | 1.000 |"
    assert widened in replay.coverage([hasty])  # 5 x 0.18 is as much as 0.9


@pytest.mark.slow
def test_stored_rounds_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LOOKS", (1, 2))
    monkeypatch.setattr(replay, "NUM_SEEDS", 2)
    pair, path = "mccormick-expectation", tmp_path / "campaign.sqlite"
    series = Series([pair], ["chosen"], num_seeds=2, first_seed=replay.FIRST_SEED, num_rounds=2)
    modules = ["bench.studies.open_benchmark.experiments"]
    campaign = Campaign("short", [series], block_size=2, modules=modules)
    assert run_campaign(campaign, path, Serial(), Options(progress=False)) == 0
    with CampaignStore(path) as store:
        found = replay.replay(store, pair)
    quantiles = torch.tensor(found["quantiles"])
    assert quantiles.shape == (2, LEVELS, 2) and (quantiles.diff(dim=1) >= 0).all()
    assert torch.tensor(found["regret"]).shape == (2, 2)
    assert (torch.tensor(found["regret"]) >= -1e-9).all()


@pytest.mark.parametrize("pair", known.PAIRS, ids=lambda pair: pair.name)
def test_the_value_of_a_known_pair_is_its_risk(pair: known.Pair) -> None:
    f = PosteriorMeanFunctions([3], 50, pair.lengthscale)
    x = pair.decisions[[7]]
    if pair.has_w:
        w = torch.linspace(0, 1, 8, dtype=torch.double)
        inputs = torch.stack([x[0].expand(8), w], dim=-1)
    else:
        shift = torch.tensor([[0, 0], [0.08, 0], [-0.08, 0], [0, 0.08], [0, -0.08]])
        inputs = x + shift.double()
    values = f(inputs.unsqueeze(0))[0].sort().values
    worst = values[:2].mean() if pair.has_w else (values[0] + 0.25 * values[1]) / 1.25
    expected = values.mean() if pair.risk == "expectation" else worst
    torch.testing.assert_close(pair.value(f, x.unsqueeze(0)).squeeze(), expected)
    assert ((inputs >= 0) & (inputs <= 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("pair", [known.PAIRS[0], known.PAIRS[-1]], ids=lambda pair: pair.name)
def test_known_hyperparameters_are_kept(pair: known.Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LOOKS", (1, 2))
    row = known.play(pair, [0, 1])
    quantiles = torch.tensor(row["quantiles"])
    assert quantiles.shape == (2, LEVELS, 2) and (quantiles.diff(dim=1) >= 0).all()
    assert (torch.tensor(row["regret"]) >= 0).all()
    assert row["pair"] == pair.name
