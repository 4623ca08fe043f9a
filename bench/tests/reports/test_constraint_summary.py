from pathlib import Path
from typing import Any

import pytest
import torch
from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.reports import constraint_summary
from botorch_risk_bench.reports.constraint_summary import constraint_markdown
from botorch_risk_bench.reports.summary import cell
from torch import Tensor

from bench.tests.played import play, records_in

pytestmark = pytest.mark.filterwarnings(
    "ignore::botorch_risk.recommend.InfeasibleRecommendationWarning"
)


def test_made_and_violated_recommendations_are_counted_over_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = get_experiment("chance-branin")
    paths = [tmp_path / f"{seed}.sqlite" for seed in (0, 3)]
    for path, seed in zip(paths, (0, 3), strict=True):
        play(definition, path, 3, ["random"], 1, first_seed=seed)
    known = {0: [True, True, False], 3: [True, False, True]}

    def made(store: ExperimentRecords, *_: Any) -> Tensor:
        return torch.tensor(known[store.identity["seeds"][0]])

    monkeypatch.setattr(constraint_summary, "_made", made)
    problem: Any = definition.problem()
    opened = [CampaignStore(path) for path in paths]
    stores = [ExperimentRecords(store) for store in opened]
    decisions = torch.cat([store.rounds("random")[-1].recommendation for store in stores])
    feasible = problem.is_feasible_decision(decisions)
    counted = torch.tensor([*known[0], *known[3]])
    page = constraint_markdown(stores, definition)
    for store in opened:
        store.close()
    regret = problem.optimal_expectation - problem.objective(decisions)
    violated = int((counted & ~feasible).sum())
    assert f"| random | 4 of 6: 66.7 % (22.3 to 95.7) | {violated} of 4: " in page
    assert page.rstrip().endswith(f"| {cell(regret.masked_fill(~feasible, torch.nan))} |")


def test_what_is_made_is_what_the_strategy_says(tmp_path: Path) -> None:
    definition = get_experiment("chance-branin")
    path = tmp_path / "results.sqlite"
    play(definition, path, 4, ("random",), 1)
    with records_in(path) as store:
        found = constraint_summary._made(store, definition, "random")
        strategy: Any = definition.build(
            "random", definition.problem().decision_bounds, store.identity["seeds"]
        )
        for record in store.rounds("random"):
            strategy.tell(record.X, record.Y)
    assert torch.equal(found, strategy.method.recommendation(strategy.views[0][1]).feasible)


def test_problems_without_constraints_are_refused() -> None:
    with pytest.raises(ValueError, match=r"with constraints and a known optimum\. Got Hetero"):
        constraint_markdown([], get_experiment("sine"))
