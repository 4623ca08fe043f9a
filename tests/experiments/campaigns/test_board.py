from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from botorch_risk.experiments import StoreError
from botorch_risk.experiments.campaigns import (
    Board,
    BoardEntry,
    CampaignStore,
    ExperimentRecords,
    board_markdown,
    plot_board,
    read_board,
)
from botorch_risk.experiments.campaigns.board import ALL, TARGETS
from botorch_risk.experiments.campaigns.worker import advance
from botorch_risk.experiments.summary import regret_curves
from tests.experiments.campaigns.small import run_here, small, task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    run_here(small(), tmp_path / "a.sqlite")
    return tmp_path / "a.sqlite"


def constant(value: float, num_rounds: int, num_seeds: int = 3) -> Tensor:
    r"""The regret of a strategy that is at `value` from round 1 on, and at 1 before."""
    regret = torch.full((num_seeds, num_rounds + 1), value, dtype=torch.double)
    regret[:, 0] = 1.0
    return regret


def board_of(*entries: BoardEntry) -> Board:
    return Board("test", tuple(entries[0].regret), (0, 1, 2), entries)


def entry(group: str, **regret: Tensor) -> BoardEntry:
    return BoardEntry(f"of {group}", "default", group, regret)


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


def test_better_undecided_and_worse_are_counted() -> None:
    noise = torch.tensor([[-0.3], [0.0], [0.3]], dtype=torch.double)
    base = constant(0.5, 2)
    board = board_of(
        entry("a", base=base, other=base - 0.2),
        entry("a", base=base, other=base + noise),
        entry("b", base=base, other=base + 0.2),
    )
    page = board_markdown(board)
    assert "| all | 1 / 1 / 1 |" in page and "| a | 1 / 1 / 0 |" in page
    assert "| b | 0 / 0 / 1 |" in page
    assert "3 experiments, 3 seeds, 2 strategies" in page


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


def test_a_panel_for_each_group() -> None:
    board = board_of(
        *(entry(name, base=constant(0.5, 2), other=constant(0.1, 2)) for name in "abcde")
    )
    figure = plot_board(board)
    assert [axes.get_title() for axes in figure.axes[:5]] == [f"{name} (1)" for name in "abcde"]
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["base", "other"]
    assert lines[1].get_ydata().tolist() == board.shares("a")["other"].mean(dim=0).tolist()
    assert len(plot_board(dataclasses.replace(board, entries=board.entries[:1])).axes) == 1
