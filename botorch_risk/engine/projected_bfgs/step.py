r"""One step of projected BFGS for every row: try a point, accept it or shorten the way to it.

The algorithm is written once, in operators and functions that NumPy and PyTorch share, without a
look at a value on a device, so that a GPU can record steps and replay them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy import ndarray

from botorch_risk.engine.projected_bfgs.arrays import Array, Arrays
from botorch_risk.engine.projected_bfgs.leaders import Leaders
from botorch_risk.engine.projected_bfgs.minima import RowStatus
from botorch_risk.engine.projected_bfgs.polyhedron import Polyhedron

# Armijo's constant: the share of the decrease to first order that a step has to reach.
SUFFICIENT_DECREASE = 1e-4
# The range of a backtracking factor: a parabola through two points is not to be trusted further.
SHRINK_RANGE = (0.1, 0.5)
# How far from the middle of a step that was rejected twice two tangents meet, if there is a kink.
OFF_THE_MIDDLE = 0.1
# How far beyond a kink a step goes, as a share of the way there, and the shortest step to one.
BEYOND, NEAREST = 0.1, 0.03
# Rejected steps before the metric is dropped: 20 halvings are below any useful step.
MAX_TRIALS = 20
# A coordinate this close to a bound lies on it: rounding in `clip` leaves no larger gap.
ON_BOUND = 1e-10
# Steps before the decrease that a metric expects is believed.
LEAST_STEPS = 4

RUNNING = float(RowStatus.RUNNING)


@dataclass(frozen=True)
class Rules:
    r"""When a step is accepted and when a row has ended; see `minimize_rows` for each."""

    max_iterations: int = 200
    gradient_tolerance: float = 1e-5
    relative_tolerance: float = 1e-9
    max_step: float = np.inf
    precision: float = float(np.finfo(np.float64).eps)
    decrease_tolerance: float = np.inf
    worthwhile: float = 0.0
    patience: float = np.inf
    noise: float = 0.0
    hope: float = 30.0
    kinks: bool = False


@dataclass
class Rows:
    r"""The rows at hand; every field has one entry per row, so that rows can be dropped."""

    index: ndarray  # which row of the caller; on the host in any case
    group: Array
    lower: Array
    upper: Array
    x: Array
    value: Array
    gradient: Array
    held: Array  # which coordinates lie at a bound with the gradient pushing outwards
    free_gradient: Array  # 0 where held
    unit: Array  # of changes of the value, for tolerances
    metric: Array  # rows x p x p, an approximate inverse Hessian
    fresh: Array  # the metric holds no curvature yet
    step: Array  # how much of the direction to try
    trials: Array  # rejected since the last accepted point
    small: Array  # accepted steps in a row that changed almost nothing
    iterations: Array
    evaluations: Array
    milestone: Array  # the value when it last fell by a worthwhile amount
    since: Array  # evaluations since then
    status: Array  # rows that have finished, and are still here, do not change any more
    trial: Array  # the point to evaluate next
    slope: Array  # the decrease to first order there
    whole_step: Array  # to the minimum of the metric's parabola within linear limits; else zeros
    within: Polyhedron | None = None  # the linear limits of all rows

    @classmethod
    def at(
        cls,
        start: ndarray,
        lower: ndarray,
        upper: ndarray,
        group: ndarray,
        metric: ndarray | None,
        within: Polyhedron | None = None,
    ) -> Rows:
        r"""Rows at their starts, on the host, before their values are known."""
        count, p = start.shape
        index, none, nothing = np.arange(count), np.zeros(count), np.zeros((count, p))
        x = np.minimum(np.maximum(start, lower), upper)
        known = np.full((count, p, p), np.nan) if metric is None else metric
        return cls(
            index=index, group=group, lower=lower, upper=upper, x=x, value=none, gradient=nothing,
            held=nothing > 0, free_gradient=nothing, unit=none, metric=known, fresh=none > 0,
            step=none + 1, trials=none, small=none, iterations=none, evaluations=none + 1,
            milestone=none, since=none, status=none + RUNNING, trial=x, slope=none,
            whole_step=nothing, within=within,
        )  # fmt: skip

    @classmethod
    def names(cls) -> list[str]:
        r"""The fields that have an entry per row in the library of the steps."""
        return [each.name for each in fields(cls) if each.name not in ("index", "within")]

    def keep(self, which: Array, index: ndarray) -> Rows:
        kept = {name: getattr(self, name)[which] for name in self.names()}
        return replace(self, index=index, **kept)


def begin(
    on: Arrays, rules: Rules, rows: Rows, leaders: Leaders | None, value: Array, gradient: Array
) -> None:
    r"""Enter the values at the starts; rows that fail or have converged at once never start."""
    rows.value, rows.gradient, rows.milestone = value, gradient, value
    rows.fresh = ~on.functions.isfinite(rows.metric).all(-1).all(-1)
    if rows.within is None:
        _look_round(on, rows)
    _reset_metric(on, rows, rows.fresh)
    # Nothing can move: all coordinates are fixed, or the start is a stationary point exactly.
    end(on, rows, _projected_gradient(on, rows) <= 0.0, RowStatus.CONVERGED)
    end(on, rows, ~_are_finite(on, value, gradient), RowStatus.FAILED)
    _propose(on, rows, rules.max_step)


def advance(
    on: Arrays, rules: Rules, rows: Rows, leaders: Leaders | None, value: Array, gradient: Array
) -> None:
    r"""Enter the values at `rows.trial`, and propose the next points."""
    trial, slope = rows.trial, rows.slope
    running = rows.status == RUNNING
    rows.evaluations = rows.evaluations + running
    accepted = running & _sufficient(on, rules, rows, value, gradient)
    rejected = running & ~accepted
    if on.any(rejected):
        shrink = _shrunk(on, rows, value, slope)
        if rules.kinks:
            rise = on.dot(gradient, trial - rows.x)
            shrink = _to_kink(on, rows, value, slope, rise, shrink)
        _backtrack(on, rows, rejected, shrink, slope, rules.precision)
    # One small step may be a bad direction; two in a row are the end of the descent.
    small = rows.value - value <= rules.relative_tolerance * rows.unit
    rows.small = on.where(accepted, (rows.small + 1) * small, rows.small)
    _move(on, rows, accepted, value, gradient, rules.kinks)
    late = accepted & (rows.iterations >= rules.max_iterations)
    end(on, rows, late, RowStatus.ITERATION_LIMIT)
    done = (rows.small >= 2) | _is_flat(on, rules, rows)
    end(on, rows, accepted & done, RowStatus.CONVERGED)
    if leaders is not None:
        overtaken = accepted & ~done & _are_overtaken(on, rows, leaders, rules.noise)
        end(on, rows, overtaken, RowStatus.OVERTAKEN)
    if rules.patience < np.inf:
        tired = _is_tired(on, rules, rows)
        end(on, rows, tired & (rows.status == RUNNING), RowStatus.CONVERGED)
    _propose(on, rows, rules.max_step)


def end(on: Arrays, rows: Rows, which: Array, status: RowStatus) -> None:
    r"""End the rows of a mask."""
    rows.status = on.put_in(rows.status, which, float(status))


def _clipped(on: Arrays, x: Array, lower: Array, upper: Array) -> Array:
    return on.functions.minimum(on.functions.maximum(x, lower), upper)


def _look_round(on: Arrays, rows: Rows) -> None:
    r"""Update what follows from the points, values and gradients."""
    rows.unit = on.at_least(abs(rows.value), 1.0)
    if rows.within is not None:
        rows.held = on.functions.zeros_like(rows.gradient) > 0
        found = rows.within.step(rows.x, rows.gradient, rows.metric)
        rows.whole_step, rows.free_gradient = found
        return
    at_lower = (rows.x <= rows.lower + ON_BOUND) & (rows.gradient > 0)
    at_upper = (rows.x >= rows.upper - ON_BOUND) & (rows.gradient < 0)
    rows.held = at_lower | at_upper
    rows.free_gradient = on.put_in(rows.gradient, rows.held, 0.0)


def _projected_gradient(on: Arrays, rows: Rows) -> Array:
    r"""The longest move of a coordinate under a unit gradient step within the box, `rows`."""
    if rows.within is not None:  # the gradient that the multipliers leave
        return on.largest(rows.free_gradient)
    moved = _clipped(on, rows.x - rows.gradient, rows.lower, rows.upper)
    return on.largest(rows.x - moved)


def _are_finite(on: Arrays, value: Array, gradient: Array) -> Array:
    return (abs(value) < np.inf) & (on.largest(gradient) < np.inf)


def _times(matrix: Array, vector: Array) -> Array:
    return (matrix @ vector[..., None])[..., 0]


def _promise(on: Arrays, rows: Rows) -> Array:
    r"""Twice the gain of a Newton step with the metric, `rows`."""
    return on.dot(rows.free_gradient, _times(rows.metric, rows.free_gradient))


def _is_flat(on: Arrays, rules: Rules, rows: Rows) -> Array:
    flat = _projected_gradient(on, rows) <= rules.gradient_tolerance
    if rules.decrease_tolerance < np.inf and on.any(flat):
        # A small gradient in a long, flat valley still promises much.
        flat = flat & (_promise(on, rows) <= rules.decrease_tolerance)
    return flat


def _is_tired(on: Arrays, rules: Rules, rows: Rows) -> Array:
    gained = rows.milestone - rows.value > rules.worthwhile
    rows.milestone = on.where(gained, rows.value, rows.milestone)
    rows.since = on.put_in(rows.since + 1, gained, 0.0)
    return rows.since >= rules.patience


def _are_overtaken(on: Arrays, rows: Rows, leaders: Leaders, noise: float) -> Array:
    # A metric that has seen few steps promises too little.
    is_new = rows.fresh | (rows.iterations < LEAST_STEPS)
    promise = on.put_in(_promise(on, rows), is_new, np.inf)
    error = noise * rows.unit
    return leaders.overtake(rows.group, rows.x, rows.value, rows.free_gradient, promise, error)


def _reset_metric(on: Arrays, rows: Rows, mask: Array) -> None:
    r"""Steepest descent with a first step of at most unit length."""
    # Without curvature a gradient says where to go and not how far: a long one, in whatever units,
    # must not throw the first step across the box.
    slope = rows.free_gradient if rows.within is None else rows.gradient @ rows.within.moves
    scale = 1.0 / on.at_least(on.dot(slope, slope) ** 0.5, 1.0)
    steepest = scale[..., None, None] * _identity(on, rows)
    rows.metric = on.where(mask, steepest, rows.metric)
    rows.fresh = rows.fresh | mask
    if rows.within is not None:
        _look_round(on, rows)


def _identity(on: Arrays, rows: Rows) -> Array:
    return on.identity(rows.x.shape[-1]) if rows.within is None else rows.within.moves


def _propose(on: Arrays, rows: Rows, max_step: float) -> None:
    r"""Choose the next point of each row, and note the decrease to first order."""
    if rows.within is not None:  # all of the way from a point within convex limits is within them
        change = rows.step[..., None] * rows.whole_step
        rows.trial, rows.slope = rows.x + change, on.dot(rows.gradient, change)
        return
    # Bertsekas: a metric that mixes held and free coordinates need not give a descent direction
    # once the step is clipped. Restricted to the free ones it does.
    direction = on.put_in(_times(rows.metric, rows.free_gradient), rows.held, 0.0)
    factor = rows.step
    if max_step < np.inf:
        factor = factor * on.at_most(max_step / on.at_least(on.largest(direction), 1e-300), 1.0)
    rows.trial = _clipped(on, rows.x - factor[..., None] * direction, rows.lower, rows.upper)
    # Along the clipped step, not along the direction: the path bends at the bounds.
    rows.slope = on.dot(rows.free_gradient, rows.trial - rows.x)


def _sufficient(on: Arrays, rules: Rules, rows: Rows, value: Array, gradient: Array) -> Array:
    r"""Armijo's rule; if the predicted decrease is within rounding, any decrease is accepted."""
    # Armijo's margin, 1e-4 of the expected decrease, is lost in the rounding of two values well
    # before the decrease itself is.
    slope = rows.slope
    decrease = value <= rows.value + SUFFICIENT_DECREASE * slope
    decrease |= (-slope <= 1e3 * rules.precision * rows.unit) & (value <= rows.value)
    if rules.noise:  # the gradient still tells what values do not
        flatter = on.dot(gradient, gradient) < on.dot(rows.gradient, rows.gradient)
        within = rules.noise * rows.unit
        decrease |= (-slope <= within) & (value <= rows.value + within) & flatter
    return decrease & (slope < 0) & _are_finite(on, value, gradient)


def _shrunk(on: Arrays, rows: Rows, value: Array, slope: Array) -> Array:
    r"""The part of a step at the minimum of the parabola through both values and the slope."""
    # A value that is not finite gives none: the shortest step then.
    parabola = -slope / (2.0 * (value - rows.value - slope))
    shrunk = on.put_in(parabola, ~(abs(parabola) < np.inf), SHRINK_RANGE[0])
    return on.at_most(on.at_least(shrunk, SHRINK_RANGE[0]), SHRINK_RANGE[1])


def _to_kink(
    on: Arrays, rows: Rows, value: Array, slope: Array, rise: Array, shrink: Array
) -> Array:
    r"""The part of a step up to a kink, where the tangents of both ends meet, if there is one.

    With parabolas a row would approach the kink in tenths of the distance. The step goes slightly
    beyond, so that the metric sees the turn. The tangents of a parabola meet halfway, so a smooth
    function goes to its own minimum.
    """
    corner = (value - rows.value - rise) / (slope - rise)
    is_off = (corner < SHRINK_RANGE[0]) | ((rows.trials > 0) & (abs(corner - 0.5) > OFF_THE_MIDDLE))
    # Where the far branch flattens the tangents meet too soon, as near as the row itself.
    beyond = on.at_least(corner * (1 + BEYOND * on.at_most(-slope / rise, 1.0)), NEAREST)
    return on.where((rise > 0) & (corner > 0) & is_off, beyond, shrink)


def _backtrack(
    on: Arrays, rows: Rows, rejected: Array, shrink: Array, slope: Array, precision: float
) -> None:
    r"""Shorten the step of rejected rows."""
    rows.step = on.where(rejected, rows.step * shrink, rows.step)
    rows.trials = rows.trials + rejected
    exhausted = rejected & ((rows.trials > MAX_TRIALS) | (slope >= 0))
    # A decrease below the rounding error of the objective is indistinguishable from none.
    drowned = rejected & (-slope <= precision * rows.unit)
    # Steepest descent has failed too, so that nothing is left to try.
    end(on, rows, exhausted & rows.fresh, RowStatus.STALLED)
    end(on, rows, drowned & rows.fresh & (slope < 0), RowStatus.CONVERGED)
    # A metric that was learnt elsewhere may mislead here: once more from steepest descent.
    restart = (exhausted | drowned) & ~rows.fresh
    if on.any(restart):
        _reset_metric(on, rows, restart)
        rows.step = on.put_in(rows.step, restart, 1.0)
        rows.trials = on.put_in(rows.trials, restart, 0.0)


def _move(
    on: Arrays, rows: Rows, accepted: Array, value: Array, gradient: Array, kinks: bool
) -> None:
    r"""Move the accepted rows and learn the curvature along their steps."""
    trial = rows.trial
    # Held coordinates are left out: their gradients turn without any change of theirs, which would
    # be read as curvature.
    change = on.put_in(trial - rows.x, rows.held, 0.0)  # s
    turn = on.put_in(gradient - rows.gradient, rows.held, 0.0)  # y
    if rows.within is not None:
        turn = turn @ rows.within.moves
    curvature, long = on.dot(change, turn), on.dot(turn, turn)
    norms = (on.dot(change, change) * long) ** 0.5
    # Only positive curvature keeps the metric positive definite. The line search asks for no more
    # than a decrease (Armijo, not Wolfe), so that it has to be checked.
    convex = accepted & (curvature > 1e-10 * norms)
    # The first curvature sets the scale, s'y / y'y, the inverse curvature along the step: a metric
    # that starts at the identity would need many updates to forget its units. Where there is no
    # curvature longer steps will find it, unless they end at a kink.
    first = convex & rows.fresh
    if on.any(first | ~convex):
        longer = accepted & ~convex & (rows.step >= (SHRINK_RANGE[0] if kinks else 0.0))
        scale = on.put_in(on.put_in(curvature / long, ~first, 1.0), longer, 4.0)
        metric = on.where(first, _identity(on, rows), rows.metric)
        rows.metric = scale[..., None, None] * metric
    turned = _times(rows.metric, turn)  # H y
    # H <- (I - w s y') H (I - w y s') + w s s' with w = 1 / s'y: H + s v' + v s'
    weight = 1.0 / curvature
    half = 0.5 * weight * (weight * on.dot(turn, turned) + 1.0)
    other = half[..., None] * change - weight[..., None] * turned  # v
    outer = change[..., None] * other[..., None, :]
    rows.metric = on.where(convex, rows.metric + (outer + outer.swapaxes(-2, -1)), rows.metric)
    rows.fresh = rows.fresh & ~convex
    rows.iterations = rows.iterations + accepted
    rows.x = on.where(accepted, trial, rows.x)
    rows.value = on.where(accepted, value, rows.value)
    rows.gradient = on.where(accepted, gradient, rows.gradient)
    rows.step = on.put_in(rows.step, accepted, 1.0)
    rows.trials = on.put_in(rows.trials, accepted, 0.0)
    _look_round(on, rows)
