r"""Recommendations under constraints, among points and everywhere."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import ModelListGP, SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.recommend import InfeasibleRecommendationWarning, recommend, recommend_everywhere
from botorch_risk.risk import Expectation, RiskMeasure, ValueAtRisk, WorstCase
from tests.contracts import gaussian_process

POINTS = torch.linspace(0, 1, 10, dtype=torch.float64).unsqueeze(-1)


def constrained(
    batch: tuple[int, ...] = (), thresholds: tuple[float, ...] = (1.5, 0.9)
) -> ConstrainedUpperConfidenceBound:
    r"""An objective, and two constraints whose outcomes differ a thousandfold in their spread."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(*batch, 12, 2, generator=generator, dtype=torch.float64)
    load, heat = X.sum(dim=-1, keepdim=True), 1000 * (5 * X).sin().prod(dim=-1, keepdim=True)
    parts = [gaussian_process(X), gaussian_process(X, load), gaussian_process(X, heat)]
    environment = DiscreteEnvironment(POINTS)
    bound = RiskUpperConfidenceBound(parts[0], environment, ValueAtRisk(0.2), beta=4.0)
    constraints = [
        RiskConstraint.chance(environment, thresholds[0], outcome=1, delta=0.1),
        RiskConstraint.chance(environment, 1000 * thresholds[1], outcome=2, delta=0.1),
    ]
    return ConstrainedUpperConfidenceBound(ModelListGP(*parts), bound, constraints, beta=1.0)


def by_loop(
    acqf: ConstrainedUpperConfidenceBound, scores: Tensor, slacks: Tensor
) -> tuple[int, bool]:
    r"""The row of one replicate, and whether it is feasible, from slacks `2 x n`."""
    units = [torch.as_tensor(each).item() for each in acqf.spreads.reshape(2, -1)[:, 0]]
    best, feasible, least = -1, False, -float("inf")
    for row, score in enumerate(scores.tolist()):
        worst = min(slacks[i, row].item() / units[i] for i in range(2))
        if score != score or worst != worst:
            continue
        if worst >= 0 and (not feasible or score > scores[best].item()):
            best, feasible = row, True
        elif not feasible and worst > least:
            best, least = row, worst
    return best, feasible


@pytest.mark.parametrize("thresholds", [(1.5, 0.9), (0.35, -0.4)], ids=["feasible", "infeasible"])
@pytest.mark.parametrize("rule", ["lower_confidence_bound", "posterior_mean"])
def test_feasible_recommendations_equal_a_loop(rule: Any, thresholds: tuple[float, ...]) -> None:
    acqf = constrained(thresholds=thresholds)
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        X = torch.rand(7, 1, generator=generator, dtype=torch.float64)
        scores = acqf.bound.mean(X) if rule == "posterior_mean" else acqf.bound.lower(X)
        row, feasible = by_loop(acqf, scores, acqf.slacks(X))
        if feasible:
            chosen = recommend(acqf.bound, X, rule, feasible=acqf)
        else:
            with pytest.warns(InfeasibleRecommendationWarning, match=r"none among 7\. The least"):
                chosen = recommend(acqf.bound, X, rule, feasible=acqf)
        assert (chosen.row, chosen.feasible) == (row, feasible)
        assert torch.equal(chosen.point, X[row])
        torch.testing.assert_close(chosen.value, scores[row])
        assert chosen.slacks is not None
        torch.testing.assert_close(chosen.slacks, acqf.slacks(X)[:, row])
        assert bool((chosen.slacks >= 0).all()) == feasible


@pytest.mark.parametrize("batch", [(2,), (2, 3)], ids=str)
def test_feasible_recommendations_of_replicates_equal_those_alone(batch: tuple[int, ...]) -> None:
    acqf = constrained(batch)
    X = torch.rand(8, 1, dtype=torch.float64)  # shared by the replicates
    slacks, scores = acqf.slacks(X), acqf.bound.lower(X)
    chosen = recommend(acqf.bound, X, "lower_confidence_bound", feasible=acqf)
    assert chosen.point.shape == (*batch, 1)
    assert chosen.slacks is not None
    assert chosen.slacks.shape == (2, *batch)
    assert chosen.feasible is not None
    assert chosen.feasible.all()
    for index in torch.cartesian_prod(*map(torch.arange, batch)).reshape(-1, len(batch)).tolist():
        at = tuple(index)
        row, _ = by_loop(acqf, scores[at], slacks[(slice(None), *at)])
        assert chosen.row[at] == row
        torch.testing.assert_close(chosen.slacks[(slice(None), *at)], slacks[(..., *at, row)])


def test_replicates_without_a_feasible_point_are_named_with_numbers() -> None:
    acqf = constrained((2,))
    X = torch.stack([POINTS[:4], POINTS[6:]])
    message = r"none among 4 in 1 of 2 replicates: \[\[1\]\].*miss the limits by 0\."
    with pytest.warns(InfeasibleRecommendationWarning, match=message):
        chosen = recommend(acqf.bound, X, "posterior_mean", feasible=acqf)
    assert chosen.feasible is not None
    assert chosen.feasible.tolist() == [True, False]


def test_bounds_with_constraints_need_not_be_told() -> None:
    acqf, X = constrained(), torch.rand(9, 1, dtype=torch.float64)
    explicit = recommend(acqf.bound, X, "posterior_mean", feasible=acqf)
    for got, expected in zip(recommend(acqf, X, "posterior_mean"), explicit, strict=True):
        assert torch.equal(got, expected)
    assert recommend(acqf.bound, X, "posterior_mean").feasible is None


def test_missing_rows_are_not_offered_as_feasible() -> None:
    acqf, X = constrained(), POINTS[:5].clone()
    best = recommend(acqf.bound, X, "posterior_mean", feasible=acqf).row.item()
    X[best] = torch.nan
    again = recommend(acqf.bound, X, "posterior_mean", feasible=acqf)
    assert again.row != best
    assert again.feasible
    other = (best + 1) % 5
    recorded = torch.full((5,), torch.nan, dtype=torch.float64)
    recorded[best], recorded[other] = 5.0, -5.0
    rule = "recorded_lower_confidence_bound"
    assert recommend(acqf.bound, X, rule, recorded, feasible=acqf).row == other
    with pytest.raises(InputDataError, match="at least one point in each replicate"):
        recommend(acqf.bound, X, rule, recorded * torch.nan, feasible=acqf)


def test_observed_objectives_need_repeats_at_feasible_points() -> None:
    r"""Points of a single repeat show nothing of the objective, and are not offered."""
    X = torch.tensor([[0.1], [0.5], [0.9]], dtype=torch.float64)
    Y = torch.tensor([[1.0, 1.2], [5.0, torch.nan], [9.0, 9.1]], dtype=torch.float64)
    bound = RiskAverseUpperConfidenceBound(MeanVarianceGP(X, Y), risk_aversion=1.0)

    class OnlyTheMiddle:
        def check_points(self, X: Tensor) -> None: ...

        def slacks(self, X: Tensor) -> Tensor:
            return torch.tensor([[-2.0, 1.0, -1.0], [3.0, 3.0, 3.0]], dtype=torch.float64)

        def worst_slack(self, slacks: Tensor) -> Tensor:
            return slacks[0]

    with pytest.warns(InfeasibleRecommendationWarning, match=r"among 2\. .* miss .* by 1, 0\."):
        chosen = recommend(bound, X, "best_observed", feasible=OnlyTheMiddle())
    assert chosen.row == 2


def test_decisions_of_constraints_are_checked() -> None:
    acqf, X = constrained(), torch.rand(4, 1, dtype=torch.float64)
    with pytest.raises(BotorchTensorDimensionError, match="the 2 inputs of the model"):
        recommend(acqf.bound, X.expand(4, 2), "posterior_mean", feasible=acqf)


UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
ENVIRONMENT = DiscreteEnvironment(torch.linspace(0, 1, 6, dtype=torch.float64)[:, None])
GRID = torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]


def outcomes(batch_shape: tuple[int, ...], rows: int = 14) -> tuple[Tensor, Tensor, Tensor]:
    r"""Pairs (x, w), an objective that grows in x, and what is used: x + w / 2."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch_shape, rows, 2, generator=generator, dtype=torch.float64)
    used = X[..., :1] + 0.5 * X[..., 1:]
    return X, 2 * X[..., :1] + (4 * X[..., 1:]).sin(), used


def limited(
    batch_shape: tuple[int, ...], threshold: float = 1.1, risk: RiskMeasure | None = None
) -> ConstrainedUpperConfidenceBound:
    X, profit, used = outcomes(batch_shape)
    model = ModelListGP(SingleTaskGP(X, profit), SingleTaskGP(X, used))
    risk = risk or Expectation()
    bound = RiskUpperConfidenceBound(model.models[0], ENVIRONMENT, risk, beta=4.0)
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


@pytest.mark.parametrize("rule", ["posterior_mean", "expected_risk"])
@pytest.mark.parametrize("batch_shape", [(), (2,)])
@pytest.mark.slow
def test_with_constraints_it_is_the_best_of_a_grid_that_is_feasible_with_confidence(
    batch_shape: tuple[int, ...], rule: Any
) -> None:
    bound = limited(batch_shape, risk=WorstCase())
    count = batch_shape[0] if batch_shape else 1
    best = recommend_everywhere(bound, UNIT, seeds=list(range(count)), rule=rule)
    feasible = bound.feasible(GRID.expand(*batch_shape, 1001, 1)).reshape(count, 1001)
    value_of = bound.bound.mean if rule == "posterior_mean" else bound.bound.expected_risk
    values = value_of(GRID.expand(*batch_shape, 1001, 1)).reshape(count, 1001).detach()
    assert feasible.any(dim=-1).all()
    assert not feasible.all(dim=-1).any()  # the constraint matters
    expected = values.masked_fill(~feasible, -torch.inf).amax(dim=-1)
    assert best.feasible.all()
    assert (best.value >= expected - 2e-3).all()
    assert (values.amax(dim=-1) > best.value + 0.05).all()


@pytest.mark.slow
def test_decisions_that_were_evaluated_are_offered_too() -> None:
    bound = limited((2,))
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
    bound = limited((), threshold=0.35)
    with pytest.warns(InfeasibleRecommendationWarning, match="Got none among 1 in 1 of 1"):
        best = recommend_everywhere(bound, UNIT, seeds=0)
    worst = bound.worst_slack(bound.slacks(GRID))
    slack = bound.worst_slack(bound.slacks(best.point))
    assert not best.feasible.any()
    assert slack >= worst.max() - 0.05  # close to the least infeasible, since the penalty rules


def test_the_seeds_have_to_fit_the_model() -> None:
    with pytest.raises(BotorchTensorDimensionError, match=r"batch shape \[3\]"):
        recommend_everywhere(limited((2,)), UNIT, seeds=[0, 1, 2])
