from __future__ import annotations

from pathlib import Path

import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.metrics import note_on_comparisons
from botorch_risk_bench.reports.level_sets import LevelSetCurves, level_set_markdown, store_curves
from botorch_risk_bench.reports.summary import cell

from tests.bench.played import play, records_in

IDENTITY = {"experiment": "coast", "objective": "F1 score", "seeds": [0, 1, 2]}


def curves(scale: float) -> LevelSetCurves:
    r"""Costs 1, 2, ..., 9 times a scale, and scores that rise in each replicate."""
    cost = scale * torch.arange(1.0, 10.0).expand(3, -1)
    rise = torch.linspace(0.1, 0.9, 9)
    return LevelSetCurves(cost, rise * torch.tensor([[0.8], [0.9], [1.0]]))


def test_scores_are_compared_at_costs_that_all_runs_have_reached() -> None:
    page = level_set_markdown({"cheap": curves(1.0), "expensive": curves(2.0)}, IDENTITY)
    assert page.startswith("# coast: F1 score\n")
    assert "| strategy | at cost 3.75 | at cost 5.5 | at cost 9 |" in page  # from 2 to 9
    last = [cell(each) for each in (curves(1.0).f1[:, 8], curves(2.0).f1[:, 3])]
    rows = [line for line in page.splitlines() if line.startswith(("| cheap", "| expensive"))]
    assert [row.split(" | ")[-1].removesuffix(" |") for row in rows[:2]] == last
    assert "Paired differences to cheap, seed by seed" in page
    assert page.endswith(f"|\n\n{note_on_comparisons(3)}\n")
    assert rows[2].endswith(f"| {cell(curves(2.0).f1[:, 3] - curves(1.0).f1[:, 8])} |")


def test_one_strategy_is_compared_with_nobody() -> None:
    assert "Paired" not in level_set_markdown({"only": curves(1.0)}, IDENTITY)


def test_strategies_that_have_played_have_a_curve(tmp_path: Path) -> None:
    definition, path = get_experiment("coast"), tmp_path / "coast.sqlite"
    play(definition, path, 2, ["straddle"], 1)
    with records_in(path) as store:
        found = store_curves(store, definition)
    assert list(found) == ["straddle"]
    assert found["straddle"].f1.shape == (2, 2)
