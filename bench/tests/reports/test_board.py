import dataclasses
import gzip
import math
import re
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
from botorch_risk_bench.reports.board import ALL, TARGETS, first_late_round, late
from botorch_risk_bench.reports.summary import regret_curves

from bench.tests.campaigns.small import small, task
from bench.tests.reports.boards import board_of, constant, entry


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


def test_a_group_may_be_left_out() -> None:
    both = of("sine", ours={0: [1.0, 0.5]}) + of("branin", ours={0: [9.0, 1.0]})
    first, second = both.experiments
    other = replace(both, experiments=(first, replace(second, settings={"risk": "tail"})))
    board = read_board(other, by="risk", without=["mean"])
    assert [each.name for each in board.entries] == ["branin"]
    assert board.left_out == ("1 of the group mean: not asked for",)
    with pytest.raises(ValueError, match=r"groups among mean, tail. Got \['tial'\]"):
        read_board(other, by="risk", without=["tial"])


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
        with pytest.raises(StoreError, match=r"Expected regrets in .* Got"):
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
    assert "in rounds 1 to 2." in page
    longer = board_of(*board.entries[:2], entry("b", base=constant(0.5, 6), other=constant(0.1, 6)))
    assert "in the last two thirds of each group's rounds." in board_markdown(longer)
    assert "3 experiments, 3 seeds, 2 strategies" in page


def test_a_panel_for_each_score_and_each_group() -> None:
    board = board_of(
        *(entry(name, base=constant(0.5, 2), other=constant(0.1, 2)) for name in "abcde")
    )
    figure = plot_board(board)
    titles = [axes.get_title() for axes in figure.axes if axes.has_data()]
    scores = ["share of targets reached", "share of targets held", "log10 of the regret"]
    assert titles == [*scores, *(f"{name} (1)" for name in "abcde")]
    for axes, curves in zip(
        figure.axes, (board.shares(), board.held(), board.log_regret()), strict=False
    ):
        lines = axes.get_lines()
        assert [line.get_label() for line in lines] == ["base", "other"]
        assert lines[1].get_ydata().tolist() == curves["other"].mean(dim=0).tolist()
    group = next(axes for axes in figure.axes if axes.get_title() == "a (1)")
    assert group.get_lines()[1].get_ydata().tolist() == board.held("a")["other"].mean(0).tolist()
    assert len(plot_board(dataclasses.replace(board, entries=board.entries[:1])).axes) == 6
    alone = dataclasses.replace(board.entries[0], group=ALL)
    assert len(plot_board(dataclasses.replace(board, entries=(alone,))).axes) == 3


def wandering(*regret: float) -> torch.Tensor:
    return torch.tensor(regret, dtype=torch.double).expand(3, -1)


def test_a_wandering_recommendation_holds_less_than_it_reaches() -> None:
    steady, wanders = wandering(1.0, 0.5, 0.05, 0.05), wandering(1.0, 0.05, 0.5, 0.05)
    board = board_of(entry("a", steady=steady, wanders=wanders))
    low, high = (
        sum(target >= regret for target in TARGETS) / len(TARGETS) for regret in (0.5, 0.05)
    )
    expected = {
        "shares": {"steady": [0, low, high, high], "wanders": [0, high, high, high]},
        "held": {"steady": [0, low, high, high], "wanders": [0, low, low, high]},
    }
    for score, by_label in expected.items():
        for label, values in by_label.items():
            found = getattr(board, score)()[label]
            torch.testing.assert_close(found, torch.tensor([values] * 3, dtype=torch.double))
    reached, held, decades = (
        [float(number) for number in re.findall(r"-?\d\.\d+(?= ±)", section.split("Diff")[0])]
        for section in board_markdown(board).split("\n## ")[1:4]
    )  # over all, and the one group; a mean over rounds 0 to 3
    assert reached == pytest.approx([(low + 2 * high) / 4, 3 * high / 4] * 2)
    assert held == pytest.approx([(low + 2 * high) / 4, (2 * low + high) / 4] * 2, rel=1e-3)
    last = math.log10(0.05)  # rounds 2 and 3 of 3
    assert decades == pytest.approx([last, (math.log10(0.5) + last) / 2] * 2, rel=1e-3)


def test_the_late_rounds_are_the_last_two_thirds() -> None:
    assert [first_late_round(number) for number in (1, 2, 3, 29, 30)] == [1, 1, 2, 10, 11]
    rounds = torch.arange(31.0).expand(2, -1)
    assert late(rounds)[0].tolist() == list(range(11, 31))


def test_leads_over_a_baseline_are_compared_as_ratios() -> None:
    few = [sum(target >= regret for target in TARGETS) for regret in (0.2, 0.1, 0.5)]
    board = board_of(
        entry("a", ours=constant(0.2, 3), other=constant(0.1, 3), random=constant(0.5, 3))
    )
    ratio = (few[1] - few[2]) / (few[0] - few[2])
    page = board_markdown(board, "random")
    assert "## Lead over random, relative to ours" in page
    assert f"| all | {ratio:.2f}, {ratio:.2f} to {ratio:.2f} |" in page
    assert "as a ratio" not in board_markdown(board)
    behind = dataclasses.replace(board, strategies=("random", "other", "ours"))
    assert "| all | open |" in board_markdown(behind, "ours")  # no ratio of two losses
    for name in ("ours", "nobody"):
        with pytest.raises(ValueError, match=f"other, random, one of two or more. Got '{name}'"):
            board_markdown(board, name)
    with pytest.raises(ValueError, match="a baseline of random, one of two or more"):
        board_markdown(dataclasses.replace(board, strategies=("ours", "random")), "random")


def test_differences_have_an_interval_over_the_experiments() -> None:
    r"""Log regrets that differ by 1 and by -1: their mean is 0, with Student's t of one degree."""
    one = entry("a", first=constant(0.1, 6), second=constant(1.0, 6))
    other = entry("b", first=constant(0.1, 6), second=constant(0.01, 6))
    page = board_markdown(board_of(one, other))
    section = page.partition("## Log regret")[2]
    assert re.search(r"^\| all \| -?0(?:\.0)? ± 0(?:\.0)? \(± 13\) \|$", section, re.MULTILINE), (
        section
    )
    assert re.search(r"^\| a \| 1.* ± 0.* \|$", section, re.MULTILINE)  # one experiment alone
