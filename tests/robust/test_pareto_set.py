r"""Sets of decisions that are Pareto optimal by the risks of the posterior mean."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.constraints import RiskConstraint
from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust.pareto_search import ObjectiveRisksRecipe, of_measures, pareto_optimal
from botorch_risk.seeding import generators
from botorch_risk.strategies import Box, Strategy, random_decision
from botorch_risk.strategies.environment_space import EnvironmentSpace
from tests import oracles
from tests.strategies.cases import OBJECTIVES
from tests.strategies.loops import play, recommended

MEASURES = (ConditionalValueAtRisk(0.4), Expectation())
LEVEL = -0.5


def limit(threshold: float, outcome: int) -> RiskConstraint:
    r"""A least worst third of an outcome."""
    environment = OBJECTIVES.environment
    return RiskConstraint(environment, ConditionalValueAtRisk(0.3), threshold, outcome)


def build(seeds: Any = (0, 1), num_initial: int = 8, **options: Any) -> Strategy:
    r"""Random decisions, of which the best by the posterior mean are recommended."""
    space = EnvironmentSpace(Box(OBJECTIVES.bounds), OBJECTIVES.environment, w_is_chosen=False)
    method = of_measures(MEASURES, random_decision, **options)
    return Strategy(space, method, seeds, num_initial=num_initial)


def risks_of_the_mean(strategy: Strategy, row: int, X: Tensor) -> np.ndarray:
    r"""By the posteriors at each (x, w), decision by decision."""
    w = OBJECTIVES.environment.points
    pairs = torch.cat([X.repeat_interleave(3, dim=0), w.repeat(len(X), 1)], dim=-1)
    found = []
    for model in strategy.belief.model.models:
        mean = model.posterior(pairs.expand(len(strategy.seeds), -1, -1)).mean[row]
        found.append(mean.detach().numpy().reshape(len(X), 3))
    equal = np.full(3, 1 / 3)
    worst = [oracles.conditional_value_at_risk(each, equal, 0.4) for each in found[0]]
    return np.stack([np.array(worst), found[1].mean(axis=-1)], axis=-1)


def test_the_recommended_set_equals_a_loop_over_pairs() -> None:
    strategy = build()
    play(strategy, 5, problem=OBJECTIVES)
    for row, decisions in enumerate(recommended(strategy)):
        X = strategy.history.X[row, :, :1]
        expected = X[oracles.non_dominated(risks_of_the_mean(strategy, row, X))]
        assert torch.equal(decisions, expected)
        assert 1 <= len(decisions) < len(X)


def test_decisions_evaluated_again_count_once() -> None:
    strategy = build(seeds=0, num_initial=6)
    X = strategy.ask()
    X[:, 3:] = X[:, :3]
    pairs = torch.cat([X, OBJECTIVES.environment.sample(6, generators(0, "w"))], dim=-1)
    strategy.tell(pairs, OBJECTIVES.sample_outcomes(pairs, 2, generators(0, "y")))
    (decisions,) = recommended(strategy)
    assert len(decisions.unique(dim=0)) == len(decisions) <= 3


def test_rows_are_taken_in_their_order_and_ties_stay() -> None:
    X = torch.tensor([[0.3], [0.1], [0.3], [0.2], [0.4]])
    values = torch.tensor([[1.0, 1.0], [2.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    assert torch.equal(pareto_optimal(X, values), X[[0, 1, 3]])
    values[1] = torch.nan  # not offered
    assert torch.equal(pareto_optimal(X, values), X[[0, 3]])
    with pytest.raises(InputDataError, match="Got only NaN"):
        pareto_optimal(X, values * torch.nan)


def test_only_decisions_that_meet_constraints_with_confidence() -> None:
    X = torch.tensor([[0.1], [0.2], [0.3]])
    values = torch.tensor([[3.0, 3.0], [1.0, 2.0], [2.0, 1.0]])
    assert torch.equal(pareto_optimal(X, values, torch.tensor([-1.0, 0.0, 1.0])), X[1:])
    with pytest.warns(InfeasibleRecommendationWarning, match="among 3.* misses a limit by 0.5 s"):
        assert torch.equal(pareto_optimal(X, values, torch.tensor([-1.0, -0.5, -2.0])), X[1:2])
    assert torch.equal(pareto_optimal(X, values, torch.tensor([torch.nan, 1.0, -1.0])), X[1:2])


def test_constraints_on_an_objective_leave_out_what_may_fail() -> None:
    free, bound = build(), build(constraints=[limit(LEVEL, outcome=1)], constraint_beta=1.0)
    for strategy in (free, bound):
        play(strategy, 6, problem=OBJECTIVES)
    assert not all(map(torch.equal, recommended(free), recommended(bound)))
    risks = bound.belief
    for row, decisions in enumerate(recommended(bound)):
        X = bound.history.X[:, :, :1]
        meets = (risks.constraints.slacks(X)[0, row] >= 0).numpy()
        assert 0 < meets.sum() < len(meets)
        values = risks_of_the_mean(bound, row, X[row])
        expected = X[row][meets][oracles.non_dominated(values[meets])]
        assert torch.equal(decisions, expected)


@pytest.mark.slow
def test_replicates_recommend_sets_of_their_own_size() -> None:
    strategy = build(seeds=range(4))
    play(strategy, 3, problem=OBJECTIVES)
    sets, reported = recommended(strategy), strategy.recommend()
    assert len({len(each) for each in sets}) > 1
    assert reported.shape == (4, max(map(len, sets)), 1)
    for row, seed in enumerate(strategy.seeds):
        alone = build(seeds=seed)
        play(alone, 3, problem=OBJECTIVES)
        torch.testing.assert_close(recommended(alone)[0], sets[row])


@pytest.mark.parametrize("outcome", [0, 1])
def test_an_objective_may_be_missing_where_the_other_was_observed(outcome: int) -> None:
    strategy = build()
    X = strategy.ask()
    pairs = torch.cat([X, OBJECTIVES.environment.sample(8, generators([0, 1], "w"))], dim=-1)
    Y = OBJECTIVES.sample_outcomes(pairs, 2, generators([0, 1], "y"))
    Y[1, 2:4, :, outcome] = torch.nan
    strategy.tell(pairs, Y)
    (first, _), (second, view) = strategy.views
    assert (first, second) == ([0], [1])
    sizes = [model.train_inputs[0].shape[-2] for model in view.belief.model.models]
    assert sizes[outcome] == 6 and sizes[1 - outcome] == 8
    assert torch.isin(recommended(strategy)[1], X[1]).all()  # any evaluated decision


def test_a_refused_tell_changes_nothing() -> None:
    strategy = build()
    play(strategy, 1, problem=OBJECTIVES)
    X = torch.cat([strategy.ask(), torch.full((2, 1, 1), 0.5).double()], dim=-1)
    before, sets = strategy.state_dict(), recommended(strategy)
    for bad in (torch.zeros(2, 1, 1), torch.zeros(2, 1, 1, 3), torch.full((2, 1, 1, 2), torch.inf)):
        with pytest.raises((BotorchTensorDimensionError, InputDataError), match=r"(`X` to|finite)"):
            strategy.tell(X, bad)
    assert strategy.state_dict() == before
    assert all(map(torch.equal, recommended(strategy), sets))


def test_outcomes_are_the_objectives_and_what_constraints_ask_for() -> None:
    assert ObjectiveRisksRecipe(MEASURES).num_outcomes == 2
    assert ObjectiveRisksRecipe(MEASURES, (limit(0.0, outcome=3),)).num_outcomes == 4
    assert ObjectiveRisksRecipe(MEASURES, (limit(0.0, outcome=0),)).num_outcomes == 2
