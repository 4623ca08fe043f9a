import csv
import dataclasses
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords
from botorch_risk_bench.campaigns.worker import advance
from botorch_risk_bench.metrics import format_with_error, note_on_comparisons
from botorch_risk_bench.reports import campaign_markdown, write_table
from botorch_risk_bench.reports.plots import plot_regret
from botorch_risk_bench.reports.summary import COLUMNS, cell, regret_curves, summary_markdown

from bench.tests.campaigns.small import small, task
from bench.tests.experiments.noisy_quadratic import (
    QUADRATIC,
    SLOW,
    NoisyQuadratic,
    Random,
    UnknownOptimum,
)
from bench.tests.played import play, records_in
from botorch_risk.strategies import Box, Strategy, View


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    play(QUADRATIC, path, 3, ["neutral"], num_rounds=4)
    play(QUADRATIC, path, 3, ["averse"], num_rounds=2)
    return path


def test_regret_equals_a_loop_over_rounds(two: Path) -> None:
    problem = NoisyQuadratic()
    with records_in(two) as store:
        curves, records = regret_curves(store)["neutral"], store.rounds("neutral")
    for seed in range(3):
        total = 0.0
        for record in records:
            recommended = problem.objective(record.recommendation)[seed]
            assert curves.simple[seed, record.index] == problem.optimal_value - recommended
            if record.index > 0:
                total += (problem.optimal_value - problem.objective(record.X)[seed]).sum().item()
                assert curves.cumulative[seed, record.index - 1].item() == pytest.approx(total)
    assert (curves.simple > 0).all()


def test_an_unknown_optimum_is_the_best_value_seen(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    play(SLOW, path, 2, num_rounds=2)
    with records_in(path) as store:
        best = max(record.objective.max() for record in store.rounds("random"))
        last = store.rounds("random")[-1].recommended_objective
        assert torch.equal(regret_curves(store)["random"].simple[:, -1], best - last)
        given = regret_curves(store, optimum=7.0)["random"].simple[:, -1]
        assert torch.equal(given, 7.0 - last)
        assert "against the best seen" in summary_markdown(store)


def test_several_stores_share_the_best_value_seen(tmp_path: Path) -> None:
    other = dataclasses.replace(SLOW, strategies={"other": SLOW.strategies["random"]})
    play(SLOW, tmp_path / "a.sqlite", 1, num_rounds=2)
    play(other, tmp_path / "b.sqlite", 2, num_rounds=2, first_seed=4)
    with records_in(tmp_path / "a.sqlite") as a, records_in(tmp_path / "b.sqlite") as b:
        alone = {**regret_curves(a), **regret_curves(b)}
        together = regret_curves(a, b)
        best = max(
            record.objective.max()
            for store, label in ((a, "random"), (b, "other"))
            for record in store.rounds(label)
        )
    for label, curve in together.items():
        known = alone[label].simple
        shift = (curve.simple - known).mean()
        torch.testing.assert_close(curve.simple - known, shift.expand_as(known))
    with records_in(tmp_path / "a.sqlite") as a:
        recommended = a.rounds("random")[-1].recommended_objective
    torch.testing.assert_close(together["random"].simple[:, -1], best - recommended)


def test_the_page_shows_error_bars_and_paired_differences(two: Path) -> None:
    with records_in(two) as store:
        curves, page = regret_curves(store), summary_markdown(store)
    assert page.startswith("# quadratic: regret after 2 rounds\n")
    assert "mean - variance [1]" in page
    values = curves["averse"].simple[:, 2]
    assert f" {cell(values)} |" in page
    assert cell(values) == format_with_error(
        values.mean().item(),
        4.302653 * values.std() / 3**0.5,  # t_2^-1(0.975)
    )
    difference = curves["averse"].cumulative[:, 1] - curves["neutral"].cumulative[:, 1]
    paired = page.split("## Paired differences to neutral")[1].split("##")[0]
    assert cell(difference) in paired
    assert paired.rstrip().endswith(f"|\n\n{note_on_comparisons(2)}")  # cumulative and simple
    assert page.count("\n| 0 |") == 1
    assert page.count("\n| 2 |") == 2
    assert "\n| 3 |" not in page


def test_a_cell_says_how_many_replicates_it_is_of() -> None:
    assert cell(torch.tensor([503.4, 608.4, 713.4])) == "608 ± 260"
    assert cell(torch.tensor([503.4, torch.nan, 713.4])) == "608 ± 1300 (2 of 3)"
    assert cell(torch.ones(1)) == "1.000 ± nan"
    assert cell(torch.full((2,), torch.nan)) == "nan ± nan (0 of 2)"


class Quitter(Random):
    r"""The second replicate asks for nothing in its third round."""

    def propose(self, view: View) -> torch.Tensor:
        X = super().propose(view)
        return X.index_fill(0, torch.tensor(1), torch.nan) if view.round == 3 else X


def quitter(bounds: torch.Tensor, seeds: list[int], num_initial: int) -> Strategy:
    return Strategy(Box(bounds), Quitter(), seeds, num_initial=num_initial, batch_size=2)


def test_a_round_that_was_not_played_is_not_free(tmp_path: Path) -> None:
    r"""By the one rule of `metrics`: NaN from then on, in tables and pictures."""
    definition = dataclasses.replace(QUADRATIC, strategies={"quitter": quitter})
    path, problem = tmp_path / "results.sqlite", NoisyQuadratic()
    play(definition, path, 3, num_rounds=5)
    with records_in(path) as store:
        curve, records = regret_curves(store)["quitter"], store.rounds("quitter")[1:]
        page = summary_markdown(store)
    assert curve.cumulative[1].isnan().tolist() == [False, False, True, True, True]
    assert not curve.simple.isnan().any()
    total = torch.zeros(3)
    for t, record in enumerate(records):
        total = total + (problem.optimal_value - problem.objective(record.X)).sum(dim=-1)
        torch.testing.assert_close(curve.cumulative[:, t], total, equal_nan=True)
    played = curve.cumulative[[0, 2], -1]
    assert f"| quitter | {cell(played)} (2 of 3) |" in page
    (axes,) = plot_regret({"quitter": curve.cumulative}, "regret", first_round=1).axes
    assert axes.lines[0].get_ydata()[-1] == played.mean()
    assert axes.get_legend_handles_labels()[1] == ["quitter (2 of 3)"]


def test_errors(tmp_path: Path) -> None:
    blind = tmp_path / "blind.sqlite"
    play(dataclasses.replace(QUADRATIC, problem=UnknownOptimum), blind, 2, ["averse"], 1)
    known = pytest.raises(ValueError, match=r"knows its true objective\. Got it in 0 of 2")
    with records_in(blind) as records, known:
        regret_curves(records)
    completed = pytest.raises(ValueError, match="a completed round after the initial design")
    with CampaignStore(tmp_path / "one.sqlite", small()) as store:
        store.commit(advance(task(small(), report_seconds=0.0)))
        with completed:
            regret_curves(ExperimentRecords(store))


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
