from __future__ import annotations

import dataclasses
import gzip
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords, StoreError
from botorch_risk_bench.campaigns.worker import advance
from botorch_risk_bench.reports import (
    ExperimentRegrets,
    Regrets,
    board_markdown,
    plot_board,
    read_board,
)
from botorch_risk_bench.reports.board import ALL, TARGETS
from botorch_risk_bench.reports.summary import regret_curves

from tests.bench.campaigns.small import small, task
from tests.bench.reports.boards import board_of, constant, entry


def test_the_regret_is_the_one_of_the_tables(path: Path) -> None:
    with CampaignStore(path) as store:
        board = read_board(store)
        assert [each.name for each in board.entries] == ["quadratic", "quadratic, more"]
        assert board.strategies == ("averse", "neutral") and board.seeds == (3, 4, 5, 6, 7)
        for each, setting in zip(board.entries, ("default", "more"), strict=True):
            curves = regret_curves(ExperimentRecords(store, "quadratic", setting))
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
        assert [each.name for each in board.entries] == ["quadratic"]
        assert board.left_out == ("quadratic, more: not run by averse, neutral",)
        assert "- quadratic, more: not run by averse, neutral" in board_markdown(board)
        with pytest.raises(ValueError, match=r"strategies of .* \(averse, neutral\). Got \['no'\]"):
            read_board(store, strategies=["no"])


def test_experiments_are_grouped_by_their_settings(path: Path) -> None:
    with CampaignStore(path) as store:
        first, second = (regrets := Regrets.of(store)).experiments
    second = replace(second, settings={"risk": "mean"})
    groups = read_board(replace(regrets, experiments=(first, second)), by="risk").groups
    assert {name: [each.name for each in group] for name, group in groups.items()} == {
        ALL: ["quadratic", "quadratic, more"],
        "mean": ["quadratic, more"],
        "other": ["quadratic"],
    }


def test_an_experiment_without_a_regret_is_left_out() -> None:
    runs = {"ours": {0: [0.0, 0.0]}}
    one = ExperimentRegrets("sine", "default", {}, runs)
    regrets = Regrets("all", ("ours",), (one,), unknown=("branin",))
    with pytest.raises(StoreError, match=r"branin: its .*; sine: the initial design finds the opt"):
        read_board(regrets)


def of(experiment: str, **runs: dict[int, list[float]]) -> Regrets:
    each = ExperimentRegrets(experiment, "default", {"risk": "mean"}, runs)
    return Regrets(f"with {experiment}", tuple(runs), (each,))


def test_they_are_written_and_read_to_the_last_bit(path: Path, tmp_path: Path) -> None:
    with CampaignStore(path) as store:
        regrets, page = Regrets.of(store), board_markdown(read_board(store))
    regrets.write(tmp_path / "one.json.gz")
    regrets.write(tmp_path / "two.json.gz")
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()
    assert Regrets.read(tmp_path / "one.json.gz") == regrets
    assert board_markdown(read_board(Regrets.read(tmp_path / "one.json.gz"))) == page
    of("a", ours={0: [1.0, math.nan]}).write(tmp_path / "nan.json.gz")
    assert math.isnan(Regrets.read(tmp_path / "nan.json.gz").experiments[0].runs["ours"][0][1])


def test_those_of_two_campaigns_are_put_together() -> None:
    first = of("sine", ours={0: [1.0, 0.5]}, random={0: [1.0, 0.9]})
    other = of("sine", ours={1: [1.0, 0.4]}, random={1: [1.0, 0.8]})
    third = of("branin", ours={0: [9.0, 1.0], 1: [9.0, 2.0]})
    both = first + other + third
    assert both.name == "with sine, with branin"
    assert both.strategies == ("ours", "random")
    assert both.experiments[0].runs["ours"] == {0: [1.0, 0.5], 1: [1.0, 0.4]}
    assert [each.name for each in read_board(both, strategies=["ours"]).entries] == [
        "sine",
        "branin",
    ]
    board = read_board(both, by="risk")
    assert board.left_out == ("branin: not run by random",) and board.seeds == (0, 1)
    assert list(board.groups) == ["all", "mean"]
    with pytest.raises(StoreError, match=r"every run of sine, ours once. Got seeds \[0\]"):
        first + first


def test_what_holds_no_regrets_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json.gz").write_bytes(gzip.compress(b'{"experiments": [1]}'))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}")[:-4])
    for name in ("other.json.gz", "cut.json.gz", "none.json.gz", path.name):
        with pytest.raises(StoreError, match=r"Expected .* to hold regrets. Got"):
            Regrets.read(tmp_path / name)


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
