r"""The push obeys the symmetries and the limits of the plane that it happens in."""

import sys

import numpy as np
import pytest
import torch
from botorch_risk_bench.problems import RobotPushing, ValueAtRiskRobotPushing
from botorch_risk_bench.problems.robot_pushing import SPEED, place_of_rest

from botorch_risk.risk import Expectation, ValueAtRisk
from botorch_risk.seeding import generators

pymunk = pytest.importorskip("pymunk")


def test_a_square_pushed_along_its_axis_follows_the_hand():
    duration = 20.0
    x, y = place_of_rest(-3.0, 0.0, duration)
    travelled = SPEED * 0.1 * duration - 3.0  # of the hand beyond the origin
    assert y == pytest.approx(0.0, abs=1e-9)
    assert travelled + 0.5 < x < travelled + 1.5  # the two touch, then the object slides on


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_turning_the_plane_by_a_quarter_turns_the_outcome(quarters):
    turn = np.linalg.matrix_power(np.array([[0.0, -1.0], [1.0, 0.0]]), quarters)
    start, duration = np.array([-2.5, 1.0]), 15.0
    turned = place_of_rest(*(turn @ start), duration)
    assert np.allclose(turned, turn @ place_of_rest(*start, duration), atol=1e-3)


def test_a_short_push_does_not_reach_the_object():
    assert place_of_rest(4.0, 3.0, 5.0) == (0.0, 0.0)


def test_longer_pushes_go_farther():
    rests = [place_of_rest(-2.0, 0.5, duration) for duration in (5, 10, 15, 20, 30)]
    assert np.all(np.diff(np.hypot(*np.transpose(rests))) > 0)


def test_outcome_is_minus_the_distance_to_the_goal():
    problem = RobotPushing(goal=(1.0, 2.0))
    X = torch.tensor([[-2.0, -3.0, 18.0], [5.0, 5.0, 1.0]], dtype=torch.double)
    expected = [-np.hypot(x - 1.0, y - 2.0) for x, y in (place_of_rest(*row) for row in X.tolist())]
    assert torch.allclose(problem(X), torch.tensor(expected, dtype=torch.double))
    assert torch.equal(problem(X), problem(X))
    assert problem(X.reshape(2, 1, 3)).shape == (2, 1)


def test_hand_at_the_goal_of_its_own_motion_pushes_nothing():
    assert place_of_rest(0.0, 0.0, 30.0) == (0.0, 0.0)


def test_law_of_the_error_is_that_of_the_paper():
    perturbation = RobotPushing().perturbation
    errors, p = perturbation.perturbations.numpy(), perturbation.weights.numpy()
    assert errors.shape == (64, 3)
    assert np.all(errors[:, 2] == 0)
    assert {round(value, 9) for value in errors[:, 0]} == {
        round(-1 + 2 * k / 7, 9) for k in range(8)
    }
    expected = np.exp(-(errors[:, :2] ** 2).sum(axis=1) / 0.4**2)
    assert np.allclose(p, expected / expected.sum())


def test_objective_is_the_risk_over_the_errors():
    problem = RobotPushing()
    decision = torch.tensor([-3.0, 2.5, 14.0], dtype=torch.double)
    values = problem(decision + problem.perturbation.perturbations)
    p = problem.perturbation.weights
    assert torch.allclose(problem.objective(decision, Expectation()), (p * values).sum())
    order = values.argsort()
    at_risk = values[order][(p[order].cumsum(0) >= 0.1).nonzero()[0]]
    assert torch.allclose(problem.objective(decision, ValueAtRisk(0.1)), at_risk)


def test_decisions_stay_clear_of_the_bounds_by_the_largest_error():
    problem = RobotPushing()
    low, high = problem.decision_bounds
    errors = problem.perturbation.perturbations
    assert (low + errors >= problem.bounds[0]).all()
    assert (high + errors <= problem.bounds[1]).all()


def test_the_error_is_the_environmental_variable():
    problem, push = ValueAtRiskRobotPushing(), RobotPushing()
    assert torch.equal(problem.decision_bounds, push.decision_bounds)
    x = torch.tensor([[-3.0, 2.5, 14.0]], dtype=torch.double)
    inputs, weights = problem.environment.expand(x)
    moved, expected_weights = push.perturbation.expand(x)
    assert torch.equal(weights, expected_weights)
    assert torch.equal(problem(inputs, noise=False), push(moved))
    for risk in (None, Expectation()):
        expected = push.objective(x, ValueAtRisk(0.1) if risk is None else risk)
        assert torch.equal(problem.objective(x, risk), expected)
    assert torch.equal(push.objective(x), push(x))


def test_outcomes_of_the_inexact_push_are_noisy():
    problem = ValueAtRiskRobotPushing()
    X = torch.tensor([[[-3.0, 2.5, 14.0, 0.0, 1.0]]], dtype=torch.double)
    repeats = problem.sample_repeats(X, 500, generators([0], "noise"))
    assert repeats.std().item() == pytest.approx(0.1, rel=0.1)
    with pytest.raises(ValueError, match="within the decision's bounds"):
        problem.objective(torch.tensor([[5.5, 0.0, 1.0]], dtype=torch.double))


def test_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymunk", None)
    with pytest.raises(ImportError, match=r"Expected pymunk.*simulations"):
        place_of_rest(1.0, 1.0, 10.0)
