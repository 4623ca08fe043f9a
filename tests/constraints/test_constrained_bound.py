r"""An objective and constraints that hold under a risk; its contract is in `test_contract.py`."""

from types import SimpleNamespace

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.optim.parameter_constraints import evaluate_feasibility
from torch import Tensor

from botorch_risk.acquisition import (
    PointwiseAcquisitionFunction,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
)
from botorch_risk.constraints import (
    ConstrainedUpperConfidenceBound,
    NoisyChanceConstraint,
    RiskConstraint,
)
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.level_sets import Straddle
from botorch_risk.models.outcomes import observed_outcomes
from botorch_risk.recommend import recommend
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, MeanVariance
from tests.contracts import mean_variance_gp, of_decision, repeated_data
from tests.models.risks import ENVIRONMENT, decisions, two_outcomes

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CHANCE = RiskConstraint.chance(ENVIRONMENT, 1.8, outcome=1, delta=0.3)
TAIL = RiskConstraint(ENVIRONMENT, ConditionalValueAtRisk(0.5), -1.0, outcome=1)


def constrained(*constraints: RiskConstraint, **options: float) -> ConstrainedUpperConfidenceBound:
    model = two_outcomes()
    bound = RiskUpperConfidenceBound(model.models[0], ENVIRONMENT, Expectation(), beta=4.0)
    return ConstrainedUpperConfidenceBound(model, bound, constraints, beta=1.0, **options)


def spread(outcome: int) -> Tensor:
    values = observed_outcomes(two_outcomes(), outcome)
    assert values is not None
    return values.std()


def bent(slacks: Tensor, bend: float = 0.01) -> Tensor:
    r"""What a penalty counts of slacks in spreads, entry by entry."""
    entries = []
    for slack in slacks.flatten().tolist():
        short = max(0.0, bend - slack)
        entries.append(short**2 / (2 * bend) if short < bend else short - bend / 2)
    return torch.tensor(entries, dtype=torch.float64).reshape(slacks.shape)


def test_the_penalty_has_its_full_price_where_a_slack_is_zero() -> None:
    slacks = torch.tensor([0.0, -0.5, 0.005, 0.02], dtype=torch.float64)
    slopes = (bent(slacks + 1e-7) - bent(slacks)) / 1e-7
    expected = torch.tensor([-1.0, -1.0, -0.5, 0.0], dtype=torch.float64)
    torch.testing.assert_close(slopes, expected, atol=1e-4, rtol=0)


def test_values_are_those_of_the_objective_less_what_is_missed() -> None:
    acqf, X = constrained(CHANCE, TAIL, penalty=7.0), decisions(40)
    for side in ("lower", "mean", "upper"):
        slacks = acqf.slacks(X, side)
        assert slacks.shape == (2, 40)
        for slack, each in zip(slacks, (CHANCE, TAIL), strict=True):
            alone = each.bound(two_outcomes(), 1.0)
            torch.testing.assert_close(slack, getattr(alone, side)(X) - each.limit)
        missed = (-slacks).clamp_min(0).sum(dim=0) / spread(1)
        values = getattr(acqf, side)(X)
        if side == "upper":
            missed = bent(slacks / spread(1)).sum(dim=0)
        expected = getattr(acqf.bound, side)(X) - 7.0 * spread(0) * missed
        if side != "upper":  # for reporting: infeasible points come last
            expected = expected.where(missed == 0, values)
            assert values[missed > 0].max() < values[missed == 0].min() - 1000
        torch.testing.assert_close(values, expected)
        assert torch.equal(acqf.feasible(X, side), (slacks >= 0).all(dim=0))


def test_the_form_for_arrays_has_the_values_and_gradients_by_autograd() -> None:
    X = torch.rand(12, 3, dtype=torch.float64)
    first, second = (SingleTaskGP(X, (k * X).sin().sum(dim=-1, keepdim=True)) for k in (3, 5))
    model = ModelListGP(first, second).eval()
    bound = RiskUpperConfidenceBound(first, ENVIRONMENT, Expectation(), beta=4.0)

    def on(*constraints: RiskConstraint) -> ConstrainedUpperConfidenceBound:
        return ConstrainedUpperConfidenceBound(model, bound, constraints, beta=1.0, penalty=7.0)

    acqf, points = on(CHANCE, TAIL), torch.rand(40, 2, dtype=torch.float64)
    evaluate = acqf.on_host(40)
    assert evaluate is not None
    assert 0 < (acqf.worst_slack(acqf.slacks(points, "upper")) < 0.01).sum() < 40
    expected = PointwiseAcquisitionFunction.value_and_gradient(acqf, points)
    for ours, theirs in zip(evaluate(points.numpy()), expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), theirs, rtol=1e-9, atol=1e-9)
    less_variance = RiskConstraint(ENVIRONMENT, MeanVariance(0.5), -1.0, outcome=1)
    assert on(less_variance).on_host(40) is None  # its bound is not the risk of the bounds
    acqf.set_X_pending(points[:1])
    assert acqf.on_host(40) is None


def test_beyond_a_limit_each_constraint_has_its_price() -> None:
    r"""And a distance of the objective's spreads, whichever constraint is missed."""
    acqf, X = constrained(CHANCE, TAIL), decisions(2)
    acqf.spreads.copy_(torch.tensor([1.0, 4.0]))
    acqf.prices.copy_(torch.tensor([20.0, 5.0]))
    acqf.slacks = lambda X, side="lower": torch.tensor([[0.5, -0.1], [-0.2, 3.0]]).to(X)
    missed = acqf.bound.lower(X) - torch.tensor([5 * 0.2, 20 * 0.1]).to(X)
    torch.testing.assert_close(acqf.lower(X), missed - 1e4 * spread(0))
    torch.testing.assert_close(acqf.worst_slack(acqf.slacks(X)), torch.tensor([-0.05, -0.1]).to(X))


def test_at_its_limit_a_constraint_holds_and_a_maximiser_keeps_a_margin() -> None:
    acqf, X = constrained(CHANCE), decisions(3)
    slacks = torch.tensor([[0.0, 1.0, -1e-9]]).to(X)
    acqf.slacks = lambda X, side="lower": slacks
    assert acqf.feasible(X).tolist() == [True, True, False]
    price = acqf.bound.mean(X) - acqf.cautious(X)
    at_limit = (acqf.prices * 1e-3 * acqf.spreads / 2).item()
    assert price.tolist() == pytest.approx([at_limit, 0.0, at_limit + 1e-9 * acqf.prices.item()])


def test_the_optimistic_set_holds_the_pessimistic_one() -> None:
    acqf, X = constrained(CHANCE), decisions(200)
    surely, perhaps = acqf.feasible(X), acqf.feasible(X, "upper")
    assert surely.any()
    assert (perhaps & ~surely).any()
    assert not (surely & ~perhaps).any()
    inside = acqf.slacks(X, "upper")[0] > 0.01 * spread(1)
    torch.testing.assert_close(acqf.upper(X)[inside], acqf.bound.upper(X)[inside])


def test_optimism_moves_the_upper_bounds_of_the_constraints_alone() -> None:
    X = decisions(100)
    theory, mean = constrained(CHANCE, TAIL), constrained(CHANCE, TAIL, upper_beta=0.0)
    for side in ("lower", "mean"):
        assert torch.equal(mean.slacks(X, side), theory.slacks(X, side))
        assert torch.equal(getattr(mean, side)(X), getattr(theory, side)(X))
    torch.testing.assert_close(mean.slacks(X, "upper"), theory.slacks(X, "mean"))
    assert (mean.slacks(X, "upper") < theory.slacks(X, "upper")).all()
    assert torch.equal(mean.bound.upper(X), theory.bound.upper(X))
    pending = decisions(1, seed=3)
    wide = constrained(CHANCE, upper_beta=9.0)
    before = wide.slacks(pending, "upper")
    wide.set_X_pending(pending)
    assert (wide.slacks(pending, "upper") < before).all()
    with pytest.raises(ValueError, match="`upper_beta` to be finite and >= 0"):
        constrained(CHANCE, upper_beta=-1.0)


@pytest.mark.slow
def test_the_cautious_mean_is_continuous_and_largest_where_the_constraints_hold() -> None:
    acqf, X = constrained(CHANCE, penalty=7.0), decisions(400)
    feasible, values = acqf.feasible(X), acqf.cautious(X)
    expected = acqf.bound.mean(X) - 7.0 * spread(0) * bent(acqf.slacks(X)[0] / spread(1), 1e-3)
    torch.testing.assert_close(values, expected)
    assert feasible.any()
    assert not feasible.all()
    acqf = constrained(CHANCE)
    climbed = SimpleNamespace(evaluate=acqf.cautious)
    best, _ = optimize_acqf_replicates(climbed, BOUNDS, seeds=[0])
    assert acqf.feasible(best[0]).all()
    grid = decisions(2000)
    values = acqf.bound.mean(grid).masked_fill(~acqf.feasible(grid), -torch.inf)
    assert acqf.bound.mean(best[0]) > values.max() - 0.02 * spread(0)


def test_recommendations_are_feasible_with_confidence() -> None:
    acqf, X = constrained(CHANCE), decisions(200)
    best = recommend(acqf, X, "lower_confidence_bound")
    assert acqf.feasible(best.point.unsqueeze(0)).all()


def test_a_maximiser_that_takes_constraints() -> None:
    acqf = constrained(CHANCE)
    start = decisions(400)[acqf.feasible(decisions(400), "upper")][:1]
    point, _ = optimize_acqf(
        acqf.bound,
        BOUNDS,
        q=1,
        num_restarts=1,
        batch_initial_conditions=start.unsqueeze(0),
        nonlinear_inequality_constraints=acqf.feasibility_functions(),
        options={"batch_limit": 1, "maxiter": 20},
    )
    assert acqf.slacks(point, "upper").min() > -1e-6
    assert acqf.bound.upper(point) >= acqf.bound.upper(start) - 1e-9
    by_penalty, _ = optimize_acqf(acqf, BOUNDS, q=1, num_restarts=4, raw_samples=64)
    assert acqf.bound.upper(by_penalty) > acqf.bound.upper(point) - 0.05


def test_constraints_hold_at_each_point_of_a_batch() -> None:
    acqf, X = constrained(CHANCE), decisions(12)
    functions = acqf.feasibility_functions("mean")
    feasible = evaluate_feasibility(X.reshape(6, 2, -1), nonlinear_inequality_constraints=functions)
    assert torch.equal(feasible, acqf.feasible(X, "mean").reshape(6, 2).all(dim=-1))
    assert feasible.any() and not feasible.all()


def test_noise_that_was_learnt() -> None:
    data = repeated_data()
    noisy = mean_variance_gp(data)
    model = ModelListGP(of_decision(data), noisy)
    bound = RiskAverseUpperConfidenceBound(noisy, beta=4.0)
    constraint = NoisyChanceConstraint(1.5, outcome=1, delta=0.05, noise_beta=1.0)
    acqf = ConstrainedUpperConfidenceBound(model, bound, [constraint], objective_outcome=1)
    X = decisions(5)
    slack = constraint.bound(model, 4.0).upper(X) + 1.5
    torch.testing.assert_close(acqf.slacks(X, "upper")[0], slack)
    pending = decisions(1, seed=3)
    acqf.set_X_pending(pending)
    assert acqf.bound.X_pending is not None
    assert (acqf.slacks(pending, "upper") < constraint.bound(model, 4.0).upper(pending) + 1.5).all()


def test_bad_arguments_are_refused() -> None:
    model = two_outcomes()
    bound = RiskUpperConfidenceBound(model.models[0], ENVIRONMENT, Expectation(), beta=4.0)
    no_bound = Straddle(model.models[0], threshold=0.0)
    with pytest.raises(UnsupportedError, match=r"confidence bounds, .* Got Straddle"):
        ConstrainedUpperConfidenceBound(model, no_bound, [CHANCE])
    with pytest.raises(ValueError, match="at least one constraint"):
        ConstrainedUpperConfidenceBound(model, bound, [])
    beyond = RiskConstraint(ENVIRONMENT, Expectation(), 0.0, outcome=2)
    with pytest.raises(ValueError, match=r"outcome in 0\.\.1.* Got 2"):
        ConstrainedUpperConfidenceBound(model, bound, [beyond])
    with pytest.raises(ValueError, match="`penalty` to be finite and >= 0"):
        ConstrainedUpperConfidenceBound(model, bound, [CHANCE], penalty=-1.0)
    averse = RiskAverseUpperConfidenceBound(mean_variance_gp(repeated_data()))
    constraint = NoisyChanceConstraint(9.0, outcome=0, delta=0.1)
    without_w = ConstrainedUpperConfidenceBound(averse.model, averse, [constraint])
    with pytest.raises(UnsupportedError, match=r"risk over W, .* Got RiskAverseUpperConfidence"):
        without_w.expected_risk(decisions(3))
    far = RiskConstraint(ENVIRONMENT, Expectation(), 99.0, outcome=1)
    with pytest.warns(UserInputWarning, match="outcome 1 is at least the threshold 99"):
        ConstrainedUpperConfidenceBound(model, bound, [far])


def test_pending_points_of_the_objective_are_kept_and_count_for_the_constraints() -> None:
    model, X = two_outcomes(), decisions(5)
    bound = RiskUpperConfidenceBound(
        model.models[0], ENVIRONMENT, Expectation(), beta=4.0, X_pending=X[:2]
    )
    before = bound.evaluate(X)
    whole = ConstrainedUpperConfidenceBound(model, bound, [TAIL], beta=4.0)
    assert torch.equal(bound.evaluate(X), before)
    expected = constrained(TAIL)
    expected.set_X_pending(X[:2])
    torch.testing.assert_close(whole.evaluate(X), expected.evaluate(X))
