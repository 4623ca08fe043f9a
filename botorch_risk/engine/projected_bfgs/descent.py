r"""BFGS with projection, vectorised over rows.

Each row is a problem of its own with its own metric, line search, iteration count and status; only
the evaluations are shared, and finished rows are no longer evaluated.

The algorithm is written once, in operators and functions that NumPy and PyTorch share. The state, a
few numbers per row, lives in NumPy by default, where an operation on a small array takes a tenth of
the time of a torch call, and the caller's objective moves the points to its own device and
precision. On an accelerator with thousands of rows it lives on the device, and the host waits only
occasionally: finished rows stay, masked, until the next check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy import ndarray

from botorch_risk.engine.projected_bfgs.arrays import Array, Arrays
from botorch_risk.engine.projected_bfgs.leaders import Leaders
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
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

_RUNNING = float(RowStatus.RUNNING)

Objective = Callable[[Array, ndarray], tuple[Array, Array]]


@dataclass
class _Rows:
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
    whole_step: Array  # to the minimum of the metric's parabola within linear limits; else zeros
    within: Polyhedron | None = None  # the linear limits of all rows

    def keep(self, which: Array, index: ndarray) -> _Rows:
        of_all = ("index", "within")
        kept = {f.name: getattr(self, f.name)[which] for f in fields(self) if f.name not in of_all}
        return replace(self, index=index, **kept)


def minimize_rows(
    objective: Objective,
    start: ndarray,
    lower: ndarray,
    upper: ndarray,
    max_iterations: int = 200,
    gradient_tolerance: float = 1e-5,
    relative_tolerance: float = 1e-9,
    max_step: float = np.inf,
    precision: float = float(np.finfo(np.float64).eps),
    decrease_tolerance: float = np.inf,
    worthwhile: float = 0.0,
    patience: float = np.inf,
    metric: ndarray | None = None,
    noise: float = 0.0,
    groups: ndarray | None = None,
    known: tuple[ndarray, ndarray] | None = None,
    hope: float = 30.0,
    kinks: bool = False,
    is_out_of_time: Callable[[], bool] = lambda: False,
    device: torch.device | None = None,
    within: Polyhedron | None = None,
) -> Minima:
    r"""Minimise each row of a batch of smooth functions within a box.

    Projected BFGS [Bertsekas1982projected]_: `x <- clip(x - step * H g, lower, upper)` where `H`
    acts on the coordinates that the gradient does not hold at a bound, and backtracking on that
    path. The search is local; a row never ends above its start, except within `noise`. The metric
    is dense, so `p` should be at most a few hundred.

    Args:
        objective: Maps the points `rows x p` and the index of each among the rows of `start`
            (finished ones are dropped eventually) to values `rows` and gradients `rows x p`. Where
            a value is not finite, the step of the row is rejected. The index is a NumPy array, and
            the same object as long as the rows are the same.
        start: `rows x p`. Moved into the box if it lies outside.
        lower: Lower bounds, broadcastable to `rows x p`.
        upper: Upper bounds, likewise. Equal bounds fix a coordinate.
        max_iterations: The maximum number of accepted steps of a row.
        gradient_tolerance: A row has converged if no entry of its projected gradient exceeds this
            and the metric predicts a decrease of at most `decrease_tolerance`.
        relative_tolerance: A row has also converged when each of two steps changed its value by
            less than this times `max(1, |value|)`.
        max_step: The largest move of a coordinate in one step.
        precision: The relative rounding error of the objective; a row has also converged if the
            predicted decrease is below it.
        decrease_tolerance: The largest predicted decrease at convergence: if a function decays
            exponentially, gradients are small far from its end.
        worthwhile: A row has also converged if `patience` evaluations have lowered its value by at
            most this in total. At a kink, for example of a maximum over outcomes, descent would
            otherwise go on for hundreds of evaluations.
        patience: The number of evaluations without a worthwhile gain.
        metric: Initial approximate inverse Hessians, `rows x p x p`, such as the `metric` of minima
            of a similar objective; NaN where it is unknown.
        noise: The relative error of values, such as quadratic forms of ill-conditioned matrices.
            Within this error a step is accepted if it shortens the gradient: near a minimum values
            are flat, so the same error in gradients hides far shorter steps.
        groups: The group of each row, `rows`, from 0 on, if only the lowest end of a group matters.
            A row ends as overtaken if it approaches the minimum of a lower row, or if even `hope`
            times its predicted decrease would leave it above a lower row. Both are heuristics:
            occasionally they abandon a row that would have found the lowest end.
        known: A known minimum of each group, `groups x p`, and its value, `groups`; NaN if there is
            none. Rows are compared with it as with rows of their group.
        hope: The factor of the second heuristic; infinite to use only the first.
        kinks: Whether the objective has kinks, as a maximum over outcomes does: rows then step to
            where tangents meet, and a row of a group ends on the way to the kink of a lower one.
        is_out_of_time: Called before each evaluation; if true, the rows end as at the iteration
            limit.
        device: The device of the state and of the objective's points, values and gradients, as
            float64 tensors. Default: NumPy arrays.
        within: Linear limits, the bounds among them, in place of the box; the rows start within
            them and stay there. A step goes to the minimum of the metric's parabola within them,
            the direction of sequential quadratic programming. Not with `device`.

    Raises:
        ValueError: If `start` is not a matrix or a lower bound exceeds its upper bound.

    Example:
        >>> import numpy as np
        >>> target = np.array([[0.5], [2.0]])
        >>> objective = lambda x, rows: (((x - target[rows]) ** 2).sum(1), 2 * (x - target[rows]))
        >>> minimize_rows(objective, np.zeros((2, 1)), np.zeros(1), np.ones(1)).x.round(6)
        array([[0.5],
               [1. ]])
    """
    on = Arrays(device)
    with np.errstate(all="ignore"):
        result, rows = _start(on, objective, start, lower, upper, metric, groups, within)
        leaders = None
        if groups is not None:
            leaders = Leaders.of(on, groups, rows.x.shape[1], known, hope, kinks)
        steps = 0
        while rows.index.size:
            if is_out_of_time():
                _end(on, rows, rows.status == _RUNNING, RowStatus.ITERATION_LIMIT)
                _retire(on, rows, result, at_least=0.0)
                break
            trial, slope = _propose(on, rows, max_step)
            value, gradient = objective(trial, rows.index)
            running = rows.status == _RUNNING
            rows.evaluations = rows.evaluations + running
            accepted = running & _sufficient(on, rows, value, gradient, slope, precision, noise)
            rejected = running & ~accepted
            if on.any(rejected):
                shrink = _shrunk(on, rows, value, slope)
                if kinks:
                    rise = (gradient * (trial - rows.x)).sum(1)
                    shrink = _to_kink(on, rows, value, slope, rise, shrink)
                _backtrack(on, rows, rejected, shrink, slope, precision)
            # One small step may be a bad direction; two in a row are the end of the descent.
            small = rows.value - value <= relative_tolerance * rows.unit
            rows.small = on.functions.where(accepted, (rows.small + 1) * small, rows.small)
            _advance(on, rows, accepted, trial, value, gradient, kinks)
            late = accepted & (rows.iterations >= max_iterations)
            _end(on, rows, late, RowStatus.ITERATION_LIMIT)
            done = (rows.small >= 2) | _is_flat(on, rows, gradient_tolerance, decrease_tolerance)
            _end(on, rows, accepted & done, RowStatus.CONVERGED)
            if leaders is not None:
                overtaken = accepted & ~done & _are_overtaken(on, rows, leaders, noise)
                _end(on, rows, overtaken, RowStatus.OVERTAKEN)
            if patience < np.inf:
                tired = _is_tired(on, rows, worthwhile, patience)
                _end(on, rows, tired & (rows.status == _RUNNING), RowStatus.CONVERGED)
            steps += 1
            if on.is_time_to_look(steps):
                rows = _retire(on, rows, result, on.few_finished)
    return result.on_host(on)


def _start(
    on: Arrays,
    objective: Objective,
    start: ndarray,
    lower: ndarray,
    upper: ndarray,
    metric: ndarray | None,
    groups: ndarray | None,
    within: Polyhedron | None,
) -> tuple[_Ends, _Rows]:
    r"""The first evaluation; rows that fail or have converged at once never start."""
    start = np.array(start, dtype=np.float64)
    if start.ndim != 2:
        raise ValueError(f"Expected `start` to have shape `rows x p`. Got {start.shape=}.")
    lower, upper = (np.broadcast_to(bound, start.shape) for bound in (lower, upper))
    if (lower > upper).any():
        raise ValueError(f"Expected lower bounds up to the upper bounds. Got {lower=}, {upper=}.")
    index = np.arange(len(start))
    x, lower, upper = on.put(np.stack([start, lower, upper]))
    x = _clipped(on, x, lower, upper)
    value, gradient = objective(x, index)
    none = on.functions.zeros_like(value)
    rows = _Rows(
        index=index, group=on.put(index if groups is None else groups), lower=lower, upper=upper,
        x=x, value=value, gradient=gradient, held=none, free_gradient=gradient, unit=none,
        metric=gradient[:, :, None] * on.functions.zeros_like(gradient)[:, None, :],
        fresh=none == 0, step=none + 1, trials=none, small=none, iterations=none,
        evaluations=none + 1, milestone=value, since=none, status=none,
        whole_step=on.functions.zeros_like(gradient), within=within,
    )  # fmt: skip
    if within is None:
        _look_round(on, rows)
    _reset_metric(on, rows, rows.fresh)
    if metric is not None:
        given = on.put(metric)
        rows.fresh = ~on.functions.isfinite(given).all(2).all(1)
        rows.metric = on.functions.where(rows.fresh[:, None, None], rows.metric, given)
        if within is not None:
            _look_round(on, rows)
    # Nothing can move: all coordinates are fixed, or the start is a stationary point exactly.
    _end(on, rows, _projected_gradient(on, rows) <= 0.0, RowStatus.CONVERGED)
    _end(on, rows, ~_are_finite(on, value, gradient), RowStatus.FAILED)
    result = _Ends(x + 0.0, value + 0.0, none + 0.0, none + 1, rows.metric + on.functions.nan)
    return result, _retire(on, rows, result, at_least=0.0)


def _end(on: Arrays, rows: _Rows, which: Array, status: RowStatus) -> None:
    rows.status = on.put_in(rows.status, which, float(status))


def _clipped(on: Arrays, x: Array, lower: Array, upper: Array) -> Array:
    return on.functions.minimum(on.functions.maximum(x, lower), upper)


def _look_round(on: Arrays, rows: _Rows) -> None:
    r"""Update what follows from the points, values and gradients."""
    rows.unit = abs(rows.value).clip(1.0)
    if rows.within is not None:
        rows.held = on.functions.zeros_like(rows.gradient) > 0
        found = rows.within.step(rows.x, rows.gradient, rows.metric)
        rows.whole_step, rows.free_gradient = found
        return
    at_lower = (rows.x <= rows.lower + ON_BOUND) & (rows.gradient > 0)
    at_upper = (rows.x >= rows.upper - ON_BOUND) & (rows.gradient < 0)
    rows.held = at_lower | at_upper
    rows.free_gradient = on.put_in(rows.gradient, rows.held, 0.0)


def _projected_gradient(on: Arrays, rows: _Rows) -> Array:
    r"""The longest move of a coordinate under a unit gradient step within the box, `rows`."""
    if rows.within is not None:  # the gradient that the multipliers leave
        return on.largest(rows.free_gradient)
    moved = _clipped(on, rows.x - rows.gradient, rows.lower, rows.upper)
    return on.largest(rows.x - moved)


def _are_finite(on: Arrays, value: Array, gradient: Array) -> Array:
    return (abs(value) < np.inf) & (on.largest(gradient) < np.inf)


def _times(matrix: Array, vector: Array) -> Array:
    return (matrix @ vector[:, :, None])[:, :, 0]


def _promise(rows: _Rows) -> Array:
    r"""Twice the gain of a Newton step with the metric, `rows`."""
    return (rows.free_gradient * _times(rows.metric, rows.free_gradient)).sum(1)


def _is_flat(on: Arrays, rows: _Rows, longest: float, most: float) -> Array:
    flat = _projected_gradient(on, rows) <= longest
    if np.isfinite(most) and on.any(flat):
        # A small gradient in a long, flat valley still promises much.
        flat = flat & (_promise(rows) <= most)
    return flat


def _is_tired(on: Arrays, rows: _Rows, worthwhile: float, patience: float) -> Array:
    gained = rows.milestone - rows.value > worthwhile
    rows.milestone = on.functions.where(gained, rows.value, rows.milestone)
    rows.since = on.put_in(rows.since + 1, gained, 0.0)
    return rows.since >= patience


def _are_overtaken(on: Arrays, rows: _Rows, leaders: Leaders, noise: float) -> Array:
    # A metric that has seen few steps promises too little.
    is_new = rows.fresh | (rows.iterations < LEAST_STEPS)
    promise = on.put_in(_promise(rows), is_new, np.inf)
    error = noise * rows.unit
    return leaders.overtake(rows.group, rows.x, rows.value, rows.free_gradient, promise, error)


def _reset_metric(on: Arrays, rows: _Rows, mask: Array) -> None:
    r"""Steepest descent with a first step of at most unit length."""
    # Without curvature a gradient says where to go and not how far: a long one, in whatever units,
    # must not throw the first step across the box.
    slope = rows.free_gradient if rows.within is None else rows.gradient @ rows.within.moves
    scale = 1.0 / ((slope**2).sum(1) ** 0.5).clip(1.0)
    steepest = scale[:, None, None] * _identity(on, rows)
    rows.metric = on.functions.where(mask[:, None, None], steepest, rows.metric)
    rows.fresh = rows.fresh | mask
    if rows.within is not None:
        _look_round(on, rows)


def _identity(on: Arrays, rows: _Rows) -> Array:
    return on.identity(rows.x.shape[1]) if rows.within is None else rows.within.moves


def _propose(on: Arrays, rows: _Rows, max_step: float) -> tuple[Array, Array]:
    r"""The next point of each row, and the decrease to first order."""
    if rows.within is not None:  # all of the way from a point within convex limits is within them
        change = rows.step[:, None] * rows.whole_step
        return rows.x + change, (rows.gradient * change).sum(1)
    # Bertsekas: a metric that mixes held and free coordinates need not give a descent direction
    # once the step is clipped. Restricted to the free ones it does.
    direction = on.put_in(_times(rows.metric, rows.free_gradient), rows.held, 0.0)
    factor = rows.step
    if max_step < np.inf:
        factor = factor * (max_step / on.largest(direction).clip(1e-300)).clip(None, 1.0)
    trial = _clipped(on, rows.x - factor[:, None] * direction, rows.lower, rows.upper)
    # Along the clipped step, not along the direction: the path bends at the bounds.
    return trial, (rows.free_gradient * (trial - rows.x)).sum(1)


def _sufficient(
    on: Arrays,
    rows: _Rows,
    value: Array,
    gradient: Array,
    slope: Array,
    precision: float,
    noise: float,
) -> Array:
    r"""Armijo's rule; if the predicted decrease is within rounding, any decrease is accepted."""
    # Armijo's margin, 1e-4 of the expected decrease, is lost in the rounding of two values well
    # before the decrease itself is.
    decrease = value <= rows.value + SUFFICIENT_DECREASE * slope
    decrease |= (-slope <= 1e3 * precision * rows.unit) & (value <= rows.value)
    if noise:  # the gradient still tells what values do not
        flatter = (gradient * gradient).sum(1) < (rows.gradient * rows.gradient).sum(1)
        within = noise * rows.unit
        decrease |= (-slope <= within) & (value <= rows.value + within) & flatter
    return decrease & (slope < 0) & _are_finite(on, value, gradient)


def _shrunk(on: Arrays, rows: _Rows, value: Array, slope: Array) -> Array:
    r"""The part of a step at the minimum of the parabola through both values and the slope."""
    # A value that is not finite gives none: the shortest step then.
    parabola = -slope / (2.0 * (value - rows.value - slope))
    shrunk = on.put_in(parabola, ~(abs(parabola) < np.inf), SHRINK_RANGE[0])
    return shrunk.clip(*SHRINK_RANGE)


def _to_kink(
    on: Arrays, rows: _Rows, value: Array, slope: Array, rise: Array, shrink: Array
) -> Array:
    r"""The part of a step up to a kink, where the tangents of both ends meet, if there is one.

    With parabolas a row would approach the kink in tenths of the distance. The step goes slightly
    beyond, so that the metric sees the turn. The tangents of a parabola meet halfway, so a smooth
    function goes to its own minimum.
    """
    corner = (value - rows.value - rise) / (slope - rise)
    is_off = (corner < SHRINK_RANGE[0]) | ((rows.trials > 0) & (abs(corner - 0.5) > OFF_THE_MIDDLE))
    # Where the far branch flattens the tangents meet too soon, as near as the row itself.
    beyond = (corner * (1 + BEYOND * (-slope / rise).clip(None, 1.0))).clip(NEAREST)
    return on.functions.where((rise > 0) & (corner > 0) & is_off, beyond, shrink)


def _backtrack(
    on: Arrays, rows: _Rows, rejected: Array, shrink: Array, slope: Array, precision: float
) -> None:
    r"""Shorten the step of rejected rows."""
    rows.step = on.functions.where(rejected, rows.step * shrink, rows.step)
    rows.trials = rows.trials + rejected
    exhausted = rejected & ((rows.trials > MAX_TRIALS) | (slope >= 0))
    # A decrease below the rounding error of the objective is indistinguishable from none.
    drowned = rejected & (-slope <= precision * rows.unit)
    # Steepest descent has failed too, so that nothing is left to try.
    _end(on, rows, exhausted & rows.fresh, RowStatus.STALLED)
    _end(on, rows, drowned & rows.fresh & (slope < 0), RowStatus.CONVERGED)
    # A metric that was learnt elsewhere may mislead here: once more from steepest descent.
    restart = (exhausted | drowned) & ~rows.fresh
    if on.any(restart):
        _reset_metric(on, rows, restart)
        rows.step = on.put_in(rows.step, restart, 1.0)
        rows.trials = on.put_in(rows.trials, restart, 0.0)


def _advance(
    on: Arrays,
    rows: _Rows,
    accepted: Array,
    trial: Array,
    value: Array,
    gradient: Array,
    kinks: bool,
) -> None:
    r"""Move the accepted rows and learn the curvature along their steps."""
    where = on.functions.where
    # Held coordinates are left out: their gradients turn without any change of theirs, which would
    # be read as curvature. A rejected row has zeros, which change nothing.
    unmoved = rows.held | ~accepted[:, None]
    change = on.put_in(trial - rows.x, unmoved, 0.0)  # s
    turn = on.put_in(gradient - rows.gradient, unmoved, 0.0)  # y
    if rows.within is not None:
        turn = turn @ rows.within.moves
    curvature, long = (change * turn).sum(1), (turn * turn).sum(1)
    norms = ((change * change).sum(1) * long) ** 0.5
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
        identity = _identity(on, rows)
        rows.metric = where(first[:, None, None], identity, rows.metric) * scale[:, None, None]
    turned = _times(rows.metric, turn)  # H y
    # H <- (I - w s y') H (I - w y s') + w s s' with w = 1 / s'y, multiplied out.
    weight = on.put_in(1.0 / curvature, ~convex, 0.0)
    square = weight * (weight * (turn * turned).sum(1) + 1.0)
    outer = change[:, :, None] * (weight[:, None] * turned)[:, None, :]
    rows.metric = rows.metric + square[:, None, None] * change[:, :, None] * change[:, None, :]
    rows.metric -= outer + outer.swapaxes(1, 2)
    rows.fresh = rows.fresh & ~convex
    rows.iterations = rows.iterations + accepted
    rows.x = where(accepted[:, None], trial, rows.x)
    rows.value = where(accepted, value, rows.value)
    rows.gradient = where(accepted[:, None], gradient, rows.gradient)
    rows.step = on.put_in(rows.step, accepted, 1.0)
    rows.trials = on.put_in(rows.trials, accepted, 0.0)
    _look_round(on, rows)


@dataclass(frozen=True)
class _Ends:
    r"""The results of the caller's rows."""

    x: Array
    value: Array
    status: Array
    evaluations: Array
    metric: Array

    def on_host(self, on: Arrays) -> Minima:
        ends = (getattr(self, f.name) for f in fields(self))
        x, value, status, evaluations, metric = on.get(*ends)
        return Minima(x, value, status.astype(int), evaluations.astype(int), metric)


def _retire(on: Arrays, rows: _Rows, result: _Ends, at_least: float) -> _Rows:
    r"""Write finished rows into the result and drop them if they are many."""
    (status,) = on.get(rows.status)
    finished = status != _RUNNING
    if not finished.any() or finished.mean() < at_least:
        return rows
    order = np.concatenate([np.flatnonzero(finished), np.flatnonzero(~finished)])
    which, owner = on.put(np.stack([order, rows.index[order]]))
    count = finished.sum()
    ended, to, rest = which[:count], owner[:count], which[count:]
    result.x[to], result.value[to] = rows.x[ended], rows.value[ended]
    result.status[to], result.evaluations[to] = rows.status[ended], rows.evaluations[ended]
    # Nothing was learnt of a fresh metric.
    unknown = rows.fresh[ended][:, None, None]
    result.metric[to] = on.put_in(rows.metric[ended], unknown, np.nan)
    return rows.keep(rest, rows.index[order[count:]])
