from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.experiments import ExperimentRun, ExperimentStore
from botorch_risk_bench.experiments.plots import plot_regret
from botorch_risk_bench.experiments.summary import cell, regret_curves, summary_markdown
from botorch_risk_bench.metrics import format_with_error, note_on_comparisons

from botorch_risk.strategies import Box, Strategy, View
from tests.bench.experiments.noisy_quadratic import QUADRATIC, SLOW, NoisyQuadratic, Random


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    ExperimentRun(QUADRATIC, path, range(3), ["neutral"], num_rounds=4).run(progress=False)
    ExperimentRun(QUADRATIC, path, range(3), ["averse"], num_rounds=2).run(progress=False)
    return path


def test_regret_equals_a_loop_over_rounds(path: Path) -> None:
    problem = NoisyQuadratic()
    with ExperimentStore(path) as store:
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
    ExperimentRun(SLOW, path, range(2), num_rounds=2).run(progress=False)
    with ExperimentStore(path) as store:
        best = max(record.objective.max() for record in store.rounds("random"))
        last = store.rounds("random")[-1].recommended_objective
        assert torch.equal(regret_curves(store)["random"].simple[:, -1], best - last)
        given = regret_curves(store, optimum=7.0)["random"].simple[:, -1]
        assert torch.equal(given, 7.0 - last)
        assert "best value seen" in summary_markdown(store)


def test_several_stores_share_the_best_value_seen(tmp_path: Path) -> None:
    other = dataclasses.replace(SLOW, strategies={"other": SLOW.strategies["random"]})
    ExperimentRun(SLOW, tmp_path / "a.sqlite", range(1), num_rounds=2).run(progress=False)
    ExperimentRun(other, tmp_path / "b.sqlite", range(4, 6), num_rounds=2).run(progress=False)
    with ExperimentStore(tmp_path / "a.sqlite") as a, ExperimentStore(tmp_path / "b.sqlite") as b:
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
    with ExperimentStore(tmp_path / "a.sqlite") as a:
        recommended = a.rounds("random")[-1].recommended_objective
    torch.testing.assert_close(together["random"].simple[:, -1], best - recommended)


def test_the_page_shows_error_bars_and_paired_differences(path: Path) -> None:
    with ExperimentStore(path) as store:
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
    ExperimentRun(definition, path, range(3), num_rounds=5).run(progress=False)
    with ExperimentStore(path) as store:
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


def test_errors(path: Path) -> None:
    with ExperimentStore(path) as store:
        X = torch.zeros(3, 1, 2)
        store.add_strategy("blind", "Blind")
        for index in range(2):
            store.record_outcomes("blind", index, X, X, None, (0.0, 0.0))
            store.record_tell("blind", index, X[:, 0], None, {}, 0.0)
        with pytest.raises(ValueError, match=r"knows its true objective\. Got it in 0 of 2"):
            regret_curves(store)
    with (
        ExperimentStore(path.with_name("new.sqlite"), {"experiment": "sine"}) as store,
        pytest.raises(ValueError, match="a completed round after the initial design"),
    ):
        regret_curves(store)
