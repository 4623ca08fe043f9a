r"""What is replayed; and strategies that finish: rows of NaN through loop, store and summary."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.campaigns import CampaignStore
from botorch_risk_bench.campaigns.loop import evaluate
from botorch_risk_bench.experiments import ExperimentDefinition, get_experiment
from botorch_risk_bench.experiments.papers.truvar import SyntheticFunctions
from botorch_risk_bench.metrics import classify_by_mean, level_set_scores, note_on_comparisons
from botorch_risk_bench.reports.level_sets import (
    LevelSetCurves,
    level_set_curves,
    level_set_markdown,
    store_curves,
)
from botorch_risk_bench.reports.replay import final_strategy, replay
from botorch_risk_bench.reports.summary import cell, failed_points, regret_curves
from torch import Tensor

from bench.tests.played import bytes_of, play, records_in
from botorch_risk.papers import LevelSet, Maximize, truvar
from botorch_risk.strategies import Method, State, Strategy, View
from botorch_risk.strategies.history import History
from botorch_risk.strategies.space import Space
from botorch_risk.test_functions import FiniteDomainProblem
from tests.acquisition.lake import build_model, grid, truth

SEEDS = [0, 1, 2]
LEVEL = 0.7
LAST = 24  # by then some replicates are finished
pytestmark = pytest.mark.filterwarnings(
    "ignore:The point with the highest posterior mean:botorch.exceptions.warnings.BotorchWarning"
)


KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "noise": 1e-3}


class Wavering(Method):
    r"""Raises once, at the tell of a round in which a replicate is finished."""

    armed = False

    def __init__(self, inner: Method) -> None:
        self.inner = inner

    @property
    def repeats_settings(self) -> bool:
        return self.inner.repeats_settings

    def start(self, space: Space, num_replicates: int) -> State:
        return self.inner.start(space, num_replicates)

    def group_by(self, history: History) -> Tensor:
        return self.inner.group_by(history)

    def believe(self, view: View) -> Any:
        return self.inner.believe(view)

    def propose(self, view: View) -> Tensor:
        return self.inner.propose(view)

    def learn(self, view: View) -> State:
        last = view.history.rounds == view.round - 1
        if type(self).armed and view.history.X[:, last].isnan().any():
            raise FloatingPointError("Cholesky")
        return self.inner.learn(view)

    def recommend(self, view: View) -> Tensor:
        return self.inner.recommend(view)


def strategy(bounds: Tensor, seeds: list[int], num_initial: int) -> Strategy:
    sizes = {"num_initial": num_initial, "batch_size": 3}
    goal = LevelSet(LEVEL)
    plain = truvar(grid().to(bounds), seeds, goal=goal, initial={"r": 0.5}, **KNOWN, **sizes)
    return Strategy(plain.space, Wavering(plain.method), seeds, **sizes)


def maximizer(bounds: Tensor, seeds: list[int], num_initial: int) -> Strategy:
    return truvar(grid().to(bounds), seeds, goal=Maximize(), num_initial=num_initial, **KNOWN)


def problem() -> FiniteDomainProblem:
    return FiniteDomainProblem(grid(), truth(grid())[:, 0], noise=1e-3)


def definition(**options: Any) -> ExperimentDefinition:
    return ExperimentDefinition(
        **{
            "name": "finite",
            "description": "A level set on 36 points",
            "problem": problem,
            "threshold": LEVEL,
            "strategies": {"TRUVAR": strategy},
            "num_initial": 1,
            "num_rounds": 12,
            "num_repeats": 1,
            "objective": "F1",
            **options,
        }
    )


def run(path: Path, num_rounds: int, given: ExperimentDefinition | None = None) -> None:
    play(given or definition(), path, len(SEEDS), num_rounds=num_rounds)


def test_finished_replicates_are_run_stored_and_resumed(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.sqlite", tmp_path / "parts.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody has failed: nobody is named
        run(whole, LAST)
    for num_rounds in (3, 20, LAST):
        run(parts, num_rounds)
    assert bytes_of(parts) == bytes_of(whole)
    with records_in(whole) as store:
        records = store.rounds("TRUVAR")
    missing = torch.stack([record.X.isnan().all(dim=-1).all(dim=-1) for record in records])
    assert missing[-1].any() and not missing[:2].any()  # some finish, and not at once
    assert all(record.Y[record.X.isnan().any(dim=-1)].isnan().all() for record in records)
    assert failed_points(records) == 0


def test_a_round_with_rows_of_nan_is_not_evaluated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = tmp_path / "results.sqlite", tmp_path / "whole.sqlite"
    monkeypatch.setattr(Wavering, "armed", True)
    for _ in range(2):  # the second time, the points asked for equal those stored, NaN to NaN
        with (
            warnings.catch_warnings(),
            pytest.raises(RuntimeError, match="FloatingPointError: Cholesky"),
        ):
            warnings.simplefilter("error")
            run(path, LAST)
    monkeypatch.setattr(Wavering, "armed", False)
    run(path, LAST)
    run(whole, LAST)
    assert bytes_of(path) == bytes_of(whole)


def test_failures_are_told_from_what_was_not_asked_for() -> None:
    class Broken(FiniteDomainProblem):
        def sample_repeats(self, X: Tensor, num_repeats: int, generator: Any) -> Tensor:
            return super().sample_repeats(X, num_repeats, generator) * torch.tensor(
                [1.0, 1.0, torch.nan], dtype=torch.double
            ).reshape(3, 1, 1)

    X = grid()[:2].expand(3, 2, 2).clone()
    X[0] = torch.nan
    broken = Broken(grid(), truth(grid())[:, 0])
    with pytest.warns(RuntimeWarning, match=r"in round 4 of seeds=\[2\]"):
        _, Y = evaluate(broken, X, SEEDS, num_repeats=1, index=4)
    assert Y.isnan().all(dim=-1).all(dim=-1).tolist() == [True, False, True]


def test_replay_restores_every_round(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    run(path, 6)
    live = strategy(problem().bounds, SEEDS, 1)
    with records_in(path) as store:
        records = store.rounds("TRUVAR")
        scores, costs = [], []
        for record in records:
            assert torch.equal(live.ask().nan_to_num(), record.X.nan_to_num())
            live.tell(record.X, record.Y)
            high = classify_by_mean(live.belief.posterior, LevelSet(LEVEL)).high
            scores.append(level_set_scores(high, truth(grid())[:, 0] >= LEVEL).f1)
            costs.append(live.state["cost"])
        curves = level_set_curves(store, definition(), "TRUVAR")
        *_, last = replay(store, definition(), "TRUVAR")
    assert torch.equal(curves.f1, torch.stack(scores, dim=-1))
    assert torch.equal(curves.cost, torch.stack(costs, dim=-1))
    with CampaignStore(path) as stored:
        state = stored.progress(stored.blocks()[0]).state
    assert json.dumps(last.state_dict()) == state


def test_a_finished_replicate_has_no_cumulative_regret_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    given = definition(
        strategies={"TRUVAR": maximizer}, optimal_value=lambda problem: 0.0, threshold=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        run(path, 25, given)
    with records_in(path) as store:
        curves = regret_curves(store)["TRUVAR"]
        records = store.rounds("TRUVAR")
    asked = torch.stack([~record.X.isnan().any(dim=-1)[:, 0] for record in records[1:]], dim=-1)
    played = asked.cumprod(dim=-1).bool()
    assert not played.all() and torch.equal(played, curves.cumulative.isfinite())
    values = truth(grid())[:, 0]
    each = [values.max() - truth(record.X)[:, 0, 0] for record in records[1:]]
    expected = torch.stack(each, dim=-1).cumsum(dim=-1)
    torch.testing.assert_close(curves.cumulative, expected, equal_nan=True)
    assert (curves.simple[:, -1] < 0.05).all()


def test_each_seed_has_its_own_function() -> None:
    given = definition(problem=SyntheticFunctions)
    both: Any = given.problem_of([4, 9])
    alone: Any = given.problem_of([9])
    X = both.domain[:5].expand(2, 5, 2)
    torch.testing.assert_close(both.objective(X)[1:], alone.objective(X[:1]))
    every = both.domain.expand(2, -1, 2)
    assert (both.objective(every).amax(dim=-1) == 0).all()


def test_the_final_strategy_needs_no_stored_state(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    run(path, 4)
    with records_in(path) as store:
        with pytest.raises(ValueError, match="a completed round of 'other'"):
            final_strategy(store, definition(strategies={"other": strategy}), "other")
        *_, expected = replay(store, definition(), "TRUVAR")
        found = final_strategy(store, definition(), "TRUVAR")
        recommendation = store.rounds("TRUVAR")[-1].recommendation
    assert found.state_dict() == expected.state_dict()
    assert torch.equal(found.recommend(), recommendation)


def test_an_experiment_without_a_threshold_has_no_level_set_curves(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    run(path, 1)
    with (
        records_in(path) as store,
        pytest.raises(ValueError, match=r"an experiment with a threshold .* threshold=None"),
    ):
        level_set_curves(store, definition(threshold=None), "TRUVAR")


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
