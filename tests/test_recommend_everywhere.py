from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import ModelListGP, SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk.recommend_everywhere import recommend_everywhere
from botorch_risk.risk import Expectation

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
ENVIRONMENT = DiscreteEnvironment(torch.linspace(0, 1, 6, dtype=torch.float64)[:, None])
GRID = torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]


def outcomes(batch_shape: tuple[int, ...], rows: int = 14) -> tuple[Tensor, Tensor, Tensor]:
    r"""Pairs (x, w), an objective that grows in x, and what is used: x + w / 2."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch_shape, rows, 2, generator=generator, dtype=torch.float64)
    used = X[..., :1] + 0.5 * X[..., 1:]
    return X, 2 * X[..., :1] + (4 * X[..., 1:]).sin(), used


def constrained(
    batch_shape: tuple[int, ...], threshold: float = 1.1
) -> ConstrainedUpperConfidenceBound:
    X, profit, used = outcomes(batch_shape)
    model = ModelListGP(SingleTaskGP(X, profit), SingleTaskGP(X, used))
    bound = RiskUpperConfidenceBound(model.models[0], ENVIRONMENT, Expectation(), beta=4.0)
    chance = RiskConstraint.chance(ENVIRONMENT, threshold, outcome=1, delta=0.2)
    return ConstrainedUpperConfidenceBound(model, bound, [chance], beta=4.0)


def test_without_constraints_it_is_the_best_of_a_grid() -> None:
    X, profit, _ = outcomes((3,))
    bound = RiskUpperConfidenceBound(SingleTaskGP(X, profit), ENVIRONMENT, Expectation(), beta=4.0)
    best = recommend_everywhere(bound, UNIT, seeds=[0, 1, 2])
    assert best.point.shape == (3, 1)
    torch.testing.assert_close(best.value, bound.mean(best.point.unsqueeze(-2))[:, 0].detach())
    assert (best.value >= bound.mean(GRID.expand(3, 1001, 1)).amax(dim=-1) - 1e-4).all()
    assert best.feasible is None


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_with_constraints_it_is_the_best_of_a_grid_that_is_feasible_with_confidence(
    batch_shape: tuple[int, ...],
) -> None:
    bound = constrained(batch_shape)
    count = batch_shape[0] if batch_shape else 1
    best = recommend_everywhere(bound, UNIT, seeds=list(range(count)))
    feasible = bound.feasible(GRID.expand(*batch_shape, 1001, 1)).reshape(count, 1001)
    values = bound.bound.mean(GRID.expand(*batch_shape, 1001, 1)).reshape(count, 1001)
    assert feasible.any(dim=-1).all()
    assert not feasible.all(dim=-1).any()  # the constraint matters
    expected = values.masked_fill(~feasible, -torch.inf).amax(dim=-1)
    assert best.feasible.all()
    assert (best.value >= expected - 2e-3).all()
    assert (values.amax(dim=-1) > best.value + 0.05).all()


def test_decisions_that_were_evaluated_are_offered_too() -> None:
    bound = constrained((2,))
    alone = recommend_everywhere(bound, UNIT, seeds=[0, 1])
    evaluated = torch.stack([alone.point, torch.zeros(2, 1, dtype=torch.float64)], dim=-2)
    poor = recommend_everywhere(
        bound, UNIT, seeds=[5, 6], evaluated=evaluated[:, 1:], num_restarts=1, raw_samples=1
    )
    both = recommend_everywhere(bound, UNIT, seeds=[0, 1], evaluated=evaluated)
    assert (both.value >= alone.value).all()
    assert set(both.row.tolist()) <= {0, 2}  # what was found before, or now
    assert (both.value >= poor.value - 1e-4).all()
    assert set(poor.row.tolist()) <= {0, 1}


@pytest.mark.filterwarnings("ignore:No observation of outcome 1 is at most the threshold")
def test_where_nothing_is_feasible_it_says_so() -> None:
    bound = constrained((), threshold=0.35)
    with pytest.warns(InfeasibleRecommendationWarning, match="Got none among 1 in 1 of 1"):
        best = recommend_everywhere(bound, UNIT, seeds=0)
    worst = bound.worst_slack(bound.slacks(GRID))
    slack = bound.worst_slack(bound.slacks(best.point))
    assert not best.feasible.any()
    assert slack >= worst.max() - 0.05  # close to the least infeasible, since the penalty rules


def test_the_seeds_have_to_fit_the_model() -> None:
    with pytest.raises(BotorchTensorDimensionError, match=r"batch shape \[3\]"):
        recommend_everywhere(constrained((2,)), UNIT, seeds=[0, 1, 2])
