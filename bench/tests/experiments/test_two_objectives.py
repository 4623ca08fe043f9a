r"""Two risks at once: sets of decisions are recommended, and scored by their hypervolume."""

import dataclasses
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.reports.replay import final_strategy
from botorch_risk_bench.reports.summary import cell, failed_points, regret_curves, summary_markdown

from bench.tests.played import bytes_of, play, records_in

TWO_RISKS = get_experiment("two-risks")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "results.sqlite"
    definition = dataclasses.replace(
        TWO_RISKS,
        name="two",
        strategies=dict.fromkeys(("random", "again"), TWO_RISKS.strategies["random"]),
    )
    play(definition, path, 2, num_rounds=3)
    return path


def test_sets_are_scored_by_their_hypervolume(path: Path) -> None:
    problem = TWO_RISKS.problem()
    with records_in(path) as store:
        records = store.rounds("random")
        curve = regret_curves(store)["random"]
        assert store.identity["optimal_value"] == problem.max_hv
        assert failed_points(records) == 0
    for record in records:
        assert record.X.shape[-1] == 3 and record.Y.shape == (*record.X.shape[:2], 1, 2)
        assert record.objective is None
        assert record.recommendation.dim() == 3
        for row, decisions in enumerate(record.recommendation):
            there = decisions[~decisions.isnan().any(dim=-1)]
            evaluated = torch.cat([each.X[row, :, :2] for each in records[: record.index + 1]])
            assert (there.unsqueeze(1) == evaluated).all(dim=-1).any(dim=-1).all()
            regret = problem.max_hv - problem.hypervolume_of(there)
            torch.testing.assert_close(curve.simple[row, record.index], regret)
    assert (curve.cumulative.shape, curve.names, curve.num_rounds) == ((2, 0), ["simple"], 3)


def test_the_page_has_the_one_column(path: Path) -> None:
    with records_in(path) as store:
        curves, page = regret_curves(store), summary_markdown(store)
    assert "| strategy | simple |" in page
    assert f"| random | {cell(curves['random'].simple[:, 3])} |" in page
    assert "there is no cumulative regret" in page
    assert page.count("1 comparison") == 1
    assert "Cumulative regret by round" not in page


def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    for name, rounds in (("whole", (3,)), ("parts", (1, 3))):
        for num_rounds in rounds:
            path = tmp_path / f"{name}.sqlite"
            play(TWO_RISKS, path, 2, ["random"], num_rounds)
    assert bytes_of(tmp_path / "parts.sqlite") == bytes_of(tmp_path / "whole.sqlite")
    with records_in(tmp_path / "whole.sqlite") as store:
        strategy = final_strategy(store, TWO_RISKS, "random")
        last = store.rounds("random")[-1].recommendation
    torch.testing.assert_close(strategy.recommend(), last, equal_nan=True)


def test_all_share_their_budget() -> None:
    bounds = TWO_RISKS.problem().decision_bounds
    built = {label: TWO_RISKS.build(label, bounds, [0, 1]) for label in TWO_RISKS.strategies}
    searches = [built[label].method.report for label in built if label != "random"]
    assert {(each.num_restarts, each.raw_samples) for each in searches} == {(4, 64)}
    ours, *others = (each.choose for each in searches)
    assert {ours.decide.max_iterations, *(each.max_iterations for each in others)} == {50}
    assert {ours.decide.acquisition.num_samples} == {
        each.acquisition.num_samples for each in others
    }
