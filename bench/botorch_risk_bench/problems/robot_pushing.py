r"""A robot pushes an object to a goal: a rigid-body simulation in the plane."""

import math
from typing import Any

import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.risk import ValueAtRisk
from botorch_risk.test_functions.environmental import EnvironmentalTestProblem, Risk
from botorch_risk_bench.problems.simulation import SimulatedTestProblem

STEP = 0.01  # seconds
SPEED = 4.0  # of the hand, units of length a second
STEPS_PER_DURATION = 10
HAND_RADIUS, OBJECT_SIDE, OBJECT_MASS = 0.3, 1.0, 1.0
SLIDING, TURNING = 20.0, 6.0  # largest friction of the ground: force and torque


class RobotPushing(SimulatedTestProblem):
    r"""Minus the distance to a goal at which a pushed object comes to rest; maximised.

        f(r_x, r_y, t_p) = -|h(r_x, r_y, t_p) - goal|

    A round hand starts at `(r_x, r_y)` and moves towards the origin at constant speed for `10 t_p`
    steps of 0.01 s. A square object lies at the origin and is pushed off if the hand reaches it; it
    slides with dry friction, may turn, and comes to rest at `h`. After Sec. 4.2 of
    [Nguyen2021vucb]_ and [Wang2017mes]_, which describe the push but not the masses, sizes and
    frictions: those are ours, so outcomes are comparable in kind, not in number.

    In V-UCB's experiment the hand is placed inexactly: `perturbation` is the distribution of the
    error of its location, 64 equidistant points of `[-1, 1]^2` with probability proportional to
    `exp(-(w_x^2 + w_y^2) / 0.4^2)`. Decisions are within `decision_bounds`, the paper's box;
    `bounds` are wider by the largest error. Hands that start inside the object push it out.

    Needs pymunk, the extra `simulations`. One push takes one or two milliseconds.
    """

    dim = 3

    def __init__(
        self,
        goal: tuple[float, float] = (3.0, -2.0),
        noise_std: float | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Builds the problem.

        Args:
            goal: Where the object should come to rest.
            noise_std: Standard deviation of the noise of an outcome; 0.1 in the paper.
        """
        self._bounds = [(-6.0, 6.0), (-6.0, 6.0), (1.0, 30.0)]
        self.continuous_inds = [0, 1, 2]
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.goal = goal

    @property
    def decision_bounds(self) -> Tensor:
        r"""Where the hand may be asked to start, and for how long to push, `2 x 3`."""
        inside = self.bounds.new_tensor([1.0, 1.0, 0.0])
        return self.bounds + torch.stack([inside, -inside])

    @property
    def perturbation(self) -> InputPerturbation:
        r"""The distribution of the error with which the hand is placed."""
        axis = torch.linspace(-1.0, 1.0, 8, dtype=torch.double).to(self.bounds)
        errors = torch.cartesian_prod(axis, axis)
        probabilities = torch.softmax(-errors.square().sum(dim=-1) / 0.4**2, dim=0)
        return InputPerturbation(torch.nn.functional.pad(errors, (0, 1)), probabilities)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The outcome, or a measure of its risk when the hand is placed inexactly.

        Args:
            X: Points `... x 3` within the bounds; with a measure of risk, decisions within
                `decision_bounds`.
            risk: From values `... x 64` and their weights to a `...` tensor, such as a measure of
                `botorch_risk.risk`. Default: the outcome of a hand that is placed exactly.
        """
        if risk is None:
            return self.evaluate_true(X)
        inputs, weights = self.perturbation.expand(X.reshape(1, -1, 3))
        return risk(self.evaluate_true(inputs), weights).reshape(X.shape[:-1])

    def _simulate(self, x: tuple[float, ...]) -> float:
        return -math.dist(place_of_rest(*x), self.goal)


class ValueAtRiskRobotPushing(EnvironmentalTestProblem):
    r"""Robot pushing with the error of the hand's location as W, five variables in all.

        f(r_x, r_y, t_p, w_x, w_y) = f_0(r_x + w_x, r_y + w_y, t_p)
        objective(r_x, r_y, t_p) = VaR(f(r_x, r_y, t_p, W)) at level 0.1

    Sec. 4.2 of [Nguyen2021vucb]_; `f_0` is `RobotPushing`, and W its perturbation. The largest
    value-at-risk is not known.
    """

    num_decision = 3
    num_environment = 2
    risk_level = 0.1

    def __init__(self, noise_std: float | None = 0.1, dtype: torch.dtype = torch.double) -> None:
        push = RobotPushing(dtype=dtype)
        error = push.perturbation
        errors = error.perturbations[:, :2]
        self.dim, self.continuous_inds = 5, list(range(5))
        box = torch.cat([push.decision_bounds, torch.stack(torch.aminmax(errors, dim=0))], dim=-1)
        self._bounds = list(zip(*box.tolist(), strict=True))
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.push = push
        self.environment = DiscreteEnvironment(errors, error.weights)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The value-at-risk, or another measure of risk, `... x 3 -> ...`."""
        self._check_decisions(X)
        return self.push.objective(X, ValueAtRisk(self.risk_level) if risk is None else risk)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self.push._evaluate_true(torch.cat([X[..., :2] + X[..., 3:], X[..., 2:3]], dim=-1))


def place_of_rest(r_x: float, r_y: float, duration: float) -> tuple[float, float]:
    r"""Where the object comes to rest after one push.

    Args:
        r_x: The first coordinate of the hand's start.
        duration: Duration of the push, in units of 0.1 s.
    """
    distance = math.hypot(r_x, r_y)
    if distance == 0.0:
        return 0.0, 0.0  # no direction to move in
    space, hand, thing = _scene(r_x, r_y)
    hand.velocity = -SPEED * r_x / distance, -SPEED * r_y / distance
    for _ in range(round(STEPS_PER_DURATION * duration)):
        space.step(STEP)
        if thing.velocity.length < 1e-9 and _has_passed(hand):
            break  # it has missed the object
    hand.velocity = 0.0, 0.0
    while thing.velocity.length > 1e-6 or abs(thing.angular_velocity) > 1e-6:
        space.step(STEP)
    return float(thing.position.x), float(thing.position.y)


def _has_passed(hand: Any) -> bool:
    beyond = HAND_RADIUS + OBJECT_SIDE
    return bool(hand.position.length > beyond and hand.position.dot(hand.velocity) > 0)


def _scene(r_x: float, r_y: float) -> tuple[Any, Any, Any]:
    r"""A plane seen from above with the hand and the object, which the ground slows down."""
    try:
        import pymunk
    except ImportError as error:
        raise ImportError(
            "Expected pymunk, which simulates the push. Install it with "
            "`pip install 'botorch-risk-bench[simulations]'`."
        ) from error
    space = pymunk.Space()  # without gravity: the plane is level
    moment = pymunk.moment_for_box(OBJECT_MASS, (OBJECT_SIDE, OBJECT_SIDE))
    thing = pymunk.Body(OBJECT_MASS, moment)
    hand = pymunk.Body(body_type=pymunk.Body.KINEMATIC)
    hand.position = r_x, r_y
    square = pymunk.Poly.create_box(thing, (OBJECT_SIDE, OBJECT_SIDE))
    disc = pymunk.Circle(hand, HAND_RADIUS)
    square.friction = disc.friction = 0.5
    slide = pymunk.PivotJoint(space.static_body, thing, (0, 0), (0, 0))
    turn = pymunk.GearJoint(space.static_body, thing, 0.0, 1.0)
    for joint, limit in ((slide, SLIDING), (turn, TURNING)):
        joint.max_bias = 0.0  # it slows down and does not pull back
        joint.max_force = limit
    space.add(thing, hand, square, disc, slide, turn)
    return space, hand, thing
