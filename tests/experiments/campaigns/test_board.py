from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from botorch_risk.experiments import StoreError
from botorch_risk.experiments.campaigns import (
    Board,
    CampaignStore,
    ExperimentRecords,
    board_markdown,
    read_board,
)
from botorch_risk.experiments.campaigns.board import ALL, TARGETS
from botorch_risk.experiments.campaigns.worker import advance
from botorch_risk.experiments.summary import regret_curves
from tests.experiments.campaigns.boards import board_of, constant, entry
from tests.experiments.campaigns.small import run_here, small, task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    run_here(small(), tmp_path / "a.sqlite")
    return tmp_path / "a.sqlite"


def test_the_regret_is_the_one_of_the_tables(path: Path) -> None:
    with CampaignStore(path) as store:
        board = read_board(store)
        assert [(each.experiment, each.setting) for each in board.entries] == [
            ("quadratic", "default"),
            ("quadratic", "more"),
        ]
        assert board.strategies == ("averse", "neutral") and board.seeds == (3, 4, 5, 6, 7)
        for each in board.entries:
            curves = regret_curves(ExperimentRecords(store, each.experiment, each.setting))
            for label, curve in curves.items():
                assert torch.equal(each.regret[label], curve.simple)
        assert read_board(store, strategies=["neutral"]).strategies == ("neutral",)


def test_shares_are_counted_by_hand() -> None:
    one = entry("a", first=constant(0.05, 4), second=constant(0.5, 4))
    other = entry("b", first=constant(1.0, 2), second=constant(0.0, 2))
    assert one.scale == other.scale == 1.0
    board = board_of(one, other)
    assert list(board.groups) == [ALL, "a", "b"]
    reached = sum(target >= 0.05 for target in TARGETS) / len(TARGETS)
    expected = torch.tensor([0.0, *4 * [reached]], dtype=torch.double).expand(3, 5)
    torch.testing.assert_close(board.shares("a")["first"], expected)
    assert board.shares("b")["second"].tolist() == [[0.0, 1.0, 1.0]] * 3
    together = board.shares()["first"]
    assert together.shape == (3, 3)  # as far as both go
    torch.testing.assert_close(together[:, 1], torch.full((3,), reached / 2).double())


def test_targets_are_in_units_of_the_first_regret() -> None:
    small_one = entry("a", first=constant(0.1, 3), second=constant(0.01, 3))
    large = entry("a", **{label: 1e4 * each for label, each in small_one.regret.items()})
    for label, share in small_one.shares.items():
        torch.testing.assert_close(large.shares[label], share)


def test_what_cannot_be_on_the_board_is_named(tmp_path: Path) -> None:
    campaign = small()
    with CampaignStore(tmp_path / "a.sqlite", campaign) as store:
        with pytest.raises(StoreError, match="not run by averse, neutral; quadratic, more: not"):
            read_board(store)
        for number in range(6):  # both strategies in the first setting
            store.commit(advance(task(campaign, number)))
        board = read_board(store)
        assert [each.setting for each in board.entries] == ["default"]
        assert board.left_out == ("quadratic, more: not run by averse, neutral",)
        assert "- quadratic, more: not run by averse, neutral" in board_markdown(board)
        with pytest.raises(ValueError, match=r"strategies of .* \(averse, neutral\). Got \['no'\]"):
            read_board(store, strategies=["no"])


def test_experiments_are_grouped_by_their_settings(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = CampaignStore.identity_in

    def with_risk(store: CampaignStore, experiment: str, setting: str) -> dict[str, object]:
        found = identity(store, experiment, setting)
        return {**found, "settings": {"risk": "mean"} if setting == "more" else {}}

    monkeypatch.setattr(CampaignStore, "identity_in", with_risk)
    with CampaignStore(path) as store:
        groups = read_board(store, by="risk").groups
    assert {name: [each.setting for each in group] for name, group in groups.items()} == {
        ALL: ["default", "more"],
        "mean": ["more"],
        "other": ["default"],
    }


def test_an_experiment_without_a_regret_is_left_out(path: Path) -> None:
    with CampaignStore(path) as store:
        worst = min(float(row[9]) for row in store.rows())
        identity = store.identity_in("quadratic", "more")
        identity["optimal_value"] = worst  # no regret is above 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CampaignStore, "identity_in", lambda *_: identity)
            with pytest.raises(StoreError, match="the initial design finds the optimum"):
                read_board(store)


def test_a_board_is_written_and_read_to_the_last_bit(path: Path, tmp_path: Path) -> None:
    with CampaignStore(path) as store:
        board = read_board(store)
    board.entries[0].regret["neutral"][0, 1] = torch.nan
    board.write(tmp_path / "one.json.gz")
    board.write(tmp_path / "two.json.gz")
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()
    found = Board.read(tmp_path / "one.json.gz")
    assert board_markdown(found) == board_markdown(board)
    assert (found.name, found.strategies, found.seeds, found.left_out) == (
        board.name,
        board.strategies,
        board.seeds,
        board.left_out,
    )
    for one, other in zip(found.entries, board.entries, strict=True):
        assert (one.name, one.group) == (other.name, other.group)
        for label, regret in other.regret.items():
            torch.testing.assert_close(one.regret[label], regret, rtol=0, atol=0, equal_nan=True)


def test_what_is_no_board_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json.gz").write_bytes(gzip.compress(b'{"entries": [1]}'))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}")[:-4])
    for name in ("other.json.gz", "cut.json.gz", "none.json.gz", path.name):
        with pytest.raises(StoreError, match=r"Expected .* a board. Got"):
            Board.read(tmp_path / name)
