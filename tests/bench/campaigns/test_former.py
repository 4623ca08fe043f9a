r"""Stores of one experiment, which version 0.1 wrote, are read and become stores of campaigns."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import CampaignStore, StoreError, run_experiment
from botorch_risk_bench.campaigns.former import read_former
from botorch_risk_bench.reports.summary import regret_curves

from tests.bench.campaigns.small import small
from tests.bench.played import change, records_in

STORED = Path(__file__).parents[2] / "stored" / "experiment.sqlite"  # RAHBO, 2 seeds, 3 rounds


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copy(STORED, tmp_path / "old.sqlite"))


def test_it_reads_like_a_campaign_and_is_left_alone(old: Path) -> None:
    before = old.read_bytes()
    with CampaignStore(old) as store:
        (block,) = store.blocks()
        assert (block.series, block.seeds) == (("sine", "RAHBO", "default"), (0, 1))
        assert store.progress(block).last_round == 3
        assert len(list(store.rows())) == 8 and len(list(store.timings())) == 4
    with records_in(old) as records:
        assert records.labels() == ["RAHBO"]
        assert regret_curves(records)["RAHBO"].simple.shape == (2, 4)
        problem = records.identity["objective"]
    assert problem and old.read_bytes() == before


def test_strategies_and_rounds_are_added_to_it(old: Path) -> None:
    for labels, num_rounds in ((["RAHBO"], 4), (["GP-UCB"], 1)):
        run_experiment("sine", old, 2, strategies=labels, num_rounds=num_rounds, progress=False)
    assert read_former(old) is None
    with CampaignStore(old) as store:
        last = {block.strategy: store.progress(block).last_round for block in store.blocks()}
    assert last == {"RAHBO": 4, "GP-UCB": 1}


def test_another_campaign_leaves_it_alone(old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(StoreError, match=r"campaign.name='sine' there, 'small' here"):
        CampaignStore(old, small())
    with pytest.raises(StoreError, match=r"goes on from .*: sine, RAHBO, default, seeds 0 to 1"):
        run_experiment("sine", old, 3, strategies=["RAHBO"], num_rounds=4, progress=False)
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "values", "message"),
    [
        ("DELETE FROM rounds WHERE round = 1", (), r"rounds 0 to 3 of 'RAHBO' .* Got \[0, 2, 3\]"),
        ("UPDATE rounds SET Y = ? WHERE round = 2", (b"x",), "round 2 of 'RAHBO' .* intact"),
        ("UPDATE strategies SET state = NULL", (), "state of 'RAHBO' in .* intact"),
        ("DELETE FROM identity WHERE key = 'seeds'", (), "identity of .* intact"),
        ("PRAGMA user_version = 1", (), "schema 2 .* Got schema 1"),
    ],
)
def test_what_was_changed_is_named(
    statement: str, values: tuple[Any, ...], message: str, old: Path
) -> None:
    change(old, statement, *values)
    with pytest.raises(StoreError, match=message):
        CampaignStore(old)
