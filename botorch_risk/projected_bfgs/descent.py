r"""BFGS with projection, vectorised over rows.

Each row is a problem of its own with its own metric, line search, iteration count and status;
only the evaluations are shared, and a row that has finished is not evaluated any more.

The state, a few numbers per row, lives in NumPy, where an operation on a small array costs a
tenth of a call into torch. The caller's objective moves the points to its own device and
precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy import ndarray

from botorch_risk.projected_bfgs.minima import Minima, RowStatus

# Armijo's constant: the share of the decrease to first order that a step has to reach.
SUFFICIENT_DECREASE = 1e-4
# The range of a backtracking factor: a parabola through two points is not to be trusted further.
SHRINK_RANGE = (0.1, 0.5)
# Rejected steps before the metric is dropped: 20 halvings are below any useful step.
MAX_TRIALS = 20
# A coordinate this close to a bound lies on it: rounding in `clip` leaves no larger gap.
ON_BOUND = 1e-10

# Steps before the decrease that a metric expects is believed.
LEAST_STEPS = 4

_RUNNING = int(RowStatus.RUNNING)  # which NumPy compares faster than the member

Objective = Callable[[ndarray, ndarray], tuple[ndarray, ndarray]]


@dataclass
class _Rows:
    r"""The rows still running; every field has one entry per row, so that rows can be dropped."""

    index: ndarray  # which row of the caller
    lower: ndarray
    upper: ndarray
    x: ndarray
    value: ndarray
    gradient: ndarray
    held: ndarray  # which coordinates lie at a bound with the gradient pushing outwards
    metric: ndarray  # rows x p x p, an approximate inverse Hessian
    fresh: ndarray  # the metric holds no curvature yet
    step: ndarray  # how much of the direction to try
    trials: ndarray  # rejected since the last accepted point
    small: ndarray  # accepted steps in a row that changed almost nothing
    iterations: ndarray
    evaluations: ndarray
    milestone: ndarray  # the value when it last fell by a worthwhile amount
    since: ndarray  # evaluations since then

    def keep(self, mask: ndarray) -> _Rows:
        return replace(self, **{f.name: getattr(self, f.name)[mask] for f in fields(self)})


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
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> Minima:
    r"""Minimise each row of a batch of smooth functions within a box.

    Projected BFGS [Bertsekas1982projected]_: `x <- clip(x - step * H g, lower, upper)` where `H`
    acts on the coordinates that the gradient does not hold at a bound, and backtracking on that
    path. Local; a row never ends above its start, except by `noise`. The metric is dense: for `p`
    up to some hundred.

    Args:
        objective: Maps the points `rows x p` and the index of each among the rows of `start`
            (finished ones are absent) to values `rows` and gradients `rows x p`. Where a
            value is not finite, the step of the row is rejected.
        start: `rows x p`. Moved into the box if it lies outside.
        lower: Lower bounds, broadcastable to `rows x p`.
        upper: Upper bounds, likewise. Equal bounds fix a coordinate.
        max_iterations: The most accepted steps of a row.
        gradient_tolerance: A row has converged when no entry of its projected gradient exceeds it
            and the metric expects no more decrease than `decrease_tolerance`.
        relative_tolerance: A row has also converged when each of two steps changed its value by
            less than this times `max(1, |value|)`.
        max_step: The most that a coordinate may move in one step.
        precision: The relative rounding error of the objective; a row has also converged when the
            decrease to be expected lies below it.
        decrease_tolerance: What a step may still promise: if a function falls off as an
            exponential, gradients are small a long way before its end.
        worthwhile: A row has also converged when `patience` evaluations have lowered its value by
            no more than this in all. At a kink, of a maximum over outcomes for example, descent
            goes on for hundreds of evaluations without any other end.
        patience: How many evaluations may gain nothing worthwhile.
        metric: Approximate inverse Hessians to begin with, `rows x p x p`, such as the
            `metric` of minima of a similar objective; NaN where it is unknown.
        noise: The relative error of values, such as quadratic forms of ill-conditioned matrices.
            Within it a step counts that shortens the gradient: a minimum is flat in values, so that
            the same error in gradients hides far shorter steps.
        groups: The group of each row, `rows`, from 0 on, if only the lowest end of a
            group matters. A row ends as overtaken once it goes to the minimum of a lower row, or
            once even `hope` times the decrease that its metric expects would leave it above one.
            Both are guesses: now and then a row is given up that would have found the lowest end.
        known: A minimum that is known to each group, `groups x p`, and its value, `groups`; NaN for
            none. Rows are compared with it as with rows of their group.
        hope: The factor of this guess; infinite for the first one alone.
        is_out_of_time: Asked before each evaluation; the rows then end as at the iteration limit.

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
    with np.errstate(all="ignore"):
        result, rows = _start(objective, start, lower, upper, metric)
        leaders = None if groups is None else Leaders.of(groups, result.x.shape[1], known, hope)
        while rows.index.size:
            if is_out_of_time():
                _retire(rows, np.full(rows.index.size, RowStatus.ITERATION_LIMIT), result)
                break
            trial, slope, free = _propose(rows, max_step)
            value, gradient = objective(trial, rows.index)
            rows.evaluations += 1
            status = np.full(rows.index.size, _RUNNING)
            accepted = _sufficient(rows, value, gradient, slope, precision, noise)
            if not accepted.all():
                _backtrack(rows, ~accepted, value, slope, status, precision)
            # One small step may be a bad direction; two in a row are the end of the descent.
            small = rows.value - value <= relative_tolerance * np.maximum(1.0, np.abs(rows.value))
            _advance(rows, accepted, trial, value, gradient, free)
            rows.small = np.where(accepted, np.where(small, rows.small + 1, 0), rows.small)
            status[accepted & (rows.iterations >= max_iterations)] = RowStatus.ITERATION_LIMIT
            done = (rows.small >= 2) | _is_flat(rows, gradient_tolerance, decrease_tolerance)
            status[accepted & done] = RowStatus.CONVERGED
            if leaders is not None:
                status[accepted & ~done & _are_overtaken(rows, leaders, noise)] = (
                    RowStatus.OVERTAKEN
                )
            if patience < np.inf:
                tired = _is_tired(rows, worthwhile, patience)
                status[tired & (status == _RUNNING)] = RowStatus.CONVERGED
            rows = _retire(rows, status, result)
    return result


def _start(
    objective: Objective, start: ndarray, lower: ndarray, upper: ndarray, metric: ndarray | None
) -> tuple[Minima, _Rows]:
    r"""The first evaluation; rows that fail at once or have nothing to do never start."""
    start = np.array(start, dtype=np.float64)
    if start.ndim != 2:
        raise ValueError(f"Expected `start` to have shape `rows x p`. Got {start.shape=}.")
    lower, upper = (np.broadcast_to(bound, start.shape) for bound in (lower, upper))
    if (lower > upper).any():
        raise ValueError(f"Expected lower bounds up to the upper bounds. Got {lower=}, {upper=}.")
    count, p = start.shape
    x, index = _clipped(start, lower, upper), np.arange(count)
    value, gradient = objective(x, index)
    zeros = np.zeros(count, dtype=np.int64)
    rows = _Rows(
        index=index, lower=lower, upper=upper, x=x, value=value, gradient=gradient,
        held=_held(x, gradient, lower, upper),
        metric=np.zeros((count, p, p)), fresh=np.ones(count, dtype=bool), step=np.ones(count),
        trials=zeros.copy(), small=zeros.copy(), iterations=zeros.copy(), evaluations=zeros + 1,
        milestone=value, since=zeros.copy(),
    )  # fmt: skip
    _reset_metric(rows, np.ones(count, dtype=bool))
    if metric is not None:
        known = np.isfinite(metric).all(axis=(1, 2))
        rows.metric[known], rows.fresh[known] = metric[known], False
    status = np.full(count, _RUNNING)
    # Nothing can move: all coordinates are fixed, or the start is a stationary point exactly.
    status[_projected_gradient(rows) <= 0.0] = RowStatus.CONVERGED
    status[~(np.isfinite(value) & np.isfinite(gradient).all(1))] = RowStatus.FAILED
    result = Minima(
        x.copy(), value.copy(), status.copy(), zeros + 1, np.full((count, p, p), np.nan)
    )
    return result, _retire(rows, status, result)


def _clipped(x: ndarray, lower: ndarray, upper: ndarray) -> ndarray:
    inside: ndarray = np.minimum(np.maximum(x, lower), upper)
    return inside


def _held(x: ndarray, gradient: ndarray, lower: ndarray, upper: ndarray) -> ndarray:
    r"""Which coordinates lie at a bound with the gradient pushing outwards."""
    at_lower = (x <= lower + ON_BOUND) & (gradient > 0)
    at_upper = (x >= upper - ON_BOUND) & (gradient < 0)
    return at_lower | at_upper


def _projected_gradient(rows: _Rows) -> ndarray:
    r"""The longest move of a coordinate under a unit gradient step within the box, `rows`."""
    moved = _clipped(rows.x - rows.gradient, rows.lower, rows.upper)
    return np.abs(rows.x - moved).max(axis=1, initial=0.0)


def _is_flat(rows: _Rows, gradient_tolerance: float, decrease_tolerance: float) -> ndarray:
    flat = _projected_gradient(rows) <= gradient_tolerance
    if np.isfinite(decrease_tolerance) and flat.any():
        # Twice what a Newton step with this metric would gain: a small gradient in a long, flat
        # valley still promises much.
        gradient = np.where(rows.held, 0.0, rows.gradient)
        decrease = np.einsum("ri,rij,rj->r", gradient, rows.metric, gradient)
        flat &= decrease <= decrease_tolerance
    return flat


def _is_tired(rows: _Rows, worthwhile: float, patience: float) -> ndarray:
    gained = rows.milestone - rows.value > worthwhile
    rows.milestone = np.where(gained, rows.value, rows.milestone)
    rows.since = np.where(gained, 0, rows.since + 1)
    tired: ndarray = rows.since >= patience
    return tired


def _are_overtaken(rows: _Rows, leaders: Leaders, noise: float) -> ndarray:
    gradient = np.where(rows.held, 0.0, rows.gradient)
    promise = (gradient * np.matmul(rows.metric, gradient[:, :, None])[:, :, 0]).sum(axis=1)
    # A metric that has seen few steps promises too little.
    promise[rows.fresh | (rows.iterations < LEAST_STEPS)] = np.inf
    error = noise * np.maximum(1.0, np.abs(rows.value))
    return leaders.overtake(rows.index, rows.x, rows.value, gradient, promise, error)


def _reset_metric(rows: _Rows, mask: ndarray) -> None:
    r"""Steepest descent with a first step of at most unit length."""
    free_gradient = np.where(rows.held, 0.0, rows.gradient)
    # Without curvature a gradient says where to go and not how far: a long one, in whatever units,
    # must not throw the first step across the box.
    scale = 1.0 / np.maximum(1.0, np.linalg.norm(free_gradient, axis=1))
    identity = np.eye(rows.x.shape[1])
    rows.metric[mask] = scale[mask, None, None] * identity
    rows.fresh[mask] = True


def _propose(rows: _Rows, max_step: float) -> tuple[ndarray, ndarray, ndarray]:
    r"""The next point of each row, the decrease to first order, and the free coordinates."""
    # Bertsekas: a metric that mixes held and free coordinates need not give a descent direction
    # once the step is clipped. Restricted to the free ones it does.
    free = ~rows.held
    gradient = np.where(free, rows.gradient, 0.0)
    direction = np.where(free, -np.matmul(rows.metric, gradient[:, :, None])[:, :, 0], 0.0)
    factor = rows.step
    if max_step < np.inf:
        largest = np.abs(direction).max(axis=1, initial=0.0)
        factor = factor * np.minimum(1.0, max_step / np.maximum(largest, 1e-300))
    trial = _clipped(rows.x + factor[:, None] * direction, rows.lower, rows.upper)
    # Along the clipped step, not along the direction: the path bends at the bounds.
    slope = (gradient * (trial - rows.x)).sum(axis=1)
    return trial, slope, free


def _sufficient(
    rows: _Rows, value: ndarray, gradient: ndarray, slope: ndarray, precision: float, noise: float
) -> ndarray:
    r"""Armijo's rule; where the expected decrease drowns in rounding any decrease will do."""
    # Armijo's margin, 1e-4 of the expected decrease, is lost in the rounding of two values well
    # before the decrease itself is.
    unit = np.maximum(1.0, np.abs(rows.value))
    decrease = value <= rows.value + SUFFICIENT_DECREASE * slope
    decrease |= (-slope <= 1e3 * precision * unit) & (value <= rows.value)
    if noise:  # the gradient still tells what values do not
        flatter = np.linalg.norm(gradient, axis=1) < np.linalg.norm(rows.gradient, axis=1)
        decrease |= (-slope <= noise * unit) & (value <= rows.value + noise * unit) & flatter
    return decrease & (slope < 0) & np.isfinite(value) & np.isfinite(gradient).all(axis=1)


def _backtrack(
    rows: _Rows,
    rejected: ndarray,
    value: ndarray,
    slope: ndarray,
    status: ndarray,
    precision: float,
) -> None:
    r"""Shorten the step of rejected rows to the minimum of a parabola."""
    # The minimum of the parabola through value and slope at 0 and the rejected value at 1. A value
    # that is not finite gives none: the shortest step then.
    parabola = -slope / (2.0 * (value - rows.value - slope))
    shrink = np.where(np.isfinite(parabola), parabola, SHRINK_RANGE[0]).clip(*SHRINK_RANGE)
    rows.step = np.where(rejected, rows.step * shrink, rows.step)
    rows.trials = np.where(rejected, rows.trials + 1, rows.trials)
    exhausted = rejected & ((rows.trials > MAX_TRIALS) | (slope >= 0))
    # A decrease below the rounding error of the objective is indistinguishable from none.
    expected = precision * np.maximum(1.0, np.abs(rows.value))
    status[rejected & rows.fresh & (slope < 0) & (-slope <= expected)] = RowStatus.CONVERGED
    # Steepest descent has failed too, so that nothing is left to try.
    status[exhausted & rows.fresh & (status == _RUNNING)] = RowStatus.STALLED
    # A metric that was learnt elsewhere may mislead here: once more from steepest descent.
    restart = exhausted & ~rows.fresh
    restart |= rejected & ~rows.fresh & (-slope <= expected)
    if restart.any():
        _reset_metric(rows, restart)
        rows.step[restart], rows.trials[restart] = 1.0, 0


def _advance(
    rows: _Rows, accepted: ndarray, trial: ndarray, value: ndarray, gradient: ndarray, free: ndarray
) -> None:
    r"""Move the accepted rows and learn the curvature along their steps."""
    # Held coordinates are left out: their gradients turn without any change of theirs, which would
    # be read as curvature. A rejected row has zeros, which change nothing.
    moved = free & accepted[:, None]
    change = np.where(moved, trial - rows.x, 0.0)  # s
    turn = np.where(moved, gradient - rows.gradient, 0.0)  # y
    curvature = (change * turn).sum(axis=1)
    long = (turn * turn).sum(axis=1)
    norms = np.sqrt((change * change).sum(axis=1) * long)
    # Only positive curvature keeps the metric positive definite. The line search asks for no more
    # than a decrease (Armijo, not Wolfe), so that it has to be checked.
    convex = accepted & (curvature > 1e-10 * norms)
    # The first curvature sets the scale, s'y / y'y, the inverse curvature along the step: a metric
    # that starts at the identity would need many updates to forget its units. Where there is no
    # curvature, longer steps will find it.
    first = convex & rows.fresh
    if first.any() or not convex.all():
        scale = np.where(first, curvature / long, 1.0)
        rows.metric[first] = np.eye(trial.shape[1])
        rows.metric *= np.where(accepted & ~convex, 4.0, scale)[:, None, None]
    turned = np.matmul(rows.metric, turn[:, :, None])[:, :, 0]  # H y
    # H <- (I - w s y') H (I - w y s') + w s s' with w = 1 / s'y, multiplied out.
    weight = np.where(convex, 1.0 / curvature, 0.0)
    square = weight * (weight * (turn * turned).sum(axis=1) + 1.0)
    outer = change[:, :, None] * (weight[:, None] * turned)[:, None, :]
    rows.metric += square[:, None, None] * change[:, :, None] * change[:, None, :]
    rows.metric -= outer + outer.transpose(0, 2, 1)
    rows.fresh &= ~convex
    rows.iterations += accepted
    if accepted.all():
        rows.x, rows.value, rows.gradient = trial, value, gradient
        rows.step, rows.trials = np.ones(len(value)), np.zeros(len(value), dtype=np.int64)
    else:
        rows.x = np.where(accepted[:, None], trial, rows.x)
        rows.value = np.where(accepted, value, rows.value)
        rows.gradient = np.where(accepted[:, None], gradient, rows.gradient)
        rows.step = np.where(accepted, 1.0, rows.step)
        rows.trials = np.where(accepted, 0, rows.trials)
    rows.held = _held(rows.x, rows.gradient, rows.lower, rows.upper)


def _retire(rows: _Rows, status: ndarray, result: Minima) -> _Rows:
    r"""Write the rows that have finished into the result and drop them."""
    finished = status != _RUNNING
    if not finished.any():
        return rows
    index = rows.index[finished]
    result.x[index], result.value[index] = rows.x[finished], rows.value[finished]
    result.status[index] = status[finished]
    learnt = finished & ~rows.fresh
    result.metric[rows.index[learnt]] = rows.metric[learnt]
    result.num_evaluations[index] = rows.evaluations[finished]
    return rows.keep(~finished)


# Which rows of a group of minimisations can still end lowest.
#
# Of many starts of one function only the lowest end matters. Most of the evaluations of a
# multi-start are spent on starts that go where another one is already, or that end above it.


# How near a minimum a row counts as on its way there, and by how much its slope may then differ
# from the slope of the bowl.
NEAR, BOWL = 0.1, 0.1


@dataclass(frozen=True)
class Leaders:
    r"""The lowest value so far of each group of rows, and its point.

    Args:
        group: The group of each row, `rows`, from 0 on.
        value: `groups`.
        x: `groups x p`.
        hope: How many times the decrease that its metric promises a row may still hope for.
    """

    group: ndarray
    value: ndarray
    x: ndarray
    hope: float

    @classmethod
    def of(
        cls,
        group: ndarray,
        p: int,
        known: tuple[ndarray, ndarray] | None = None,
        hope: float = 30.0,
    ) -> Leaders:
        if known is not None:
            x, value = known
            return cls(group, np.where(np.isnan(value), np.inf, value), x.copy(), hope)
        count = group.max(initial=-1) + 1
        return cls(group, np.full(count, np.inf), np.full((count, p), np.nan), hope)

    def overtake(
        self,
        index: ndarray,
        x: ndarray,
        value: ndarray,
        gradient: ndarray,
        promise: ndarray,
        error: ndarray,
    ) -> ndarray:
        r"""Compare rows with the lowest of their group, and return which can hardly end lower.

        Args:
            index: Which row each is.
            x: Their points, `rows x p`.
            value: Their values, `rows`.
            gradient: Their gradients, `rows x p`, 0 where a bound holds a coordinate.
            promise: The decrease that the metric of each expects, `rows`.
            error: By how much a value may be wrong, `rows`: a row may fall behind its own past.
        """
        group = self.group[index]
        ahead = np.flatnonzero(value < self.value[group])
        ahead = ahead[np.argsort(-value[ahead], kind="stable")]  # of a group, the lowest last
        self.value[group[ahead]], self.x[group[ahead]] = value[ahead], x[ahead]
        gap, offset = value - self.value[group], x - self.x[group]
        # In the bowl of a minimum at a distance the slope towards it is twice the gap.
        close = np.abs(offset).max(axis=1, initial=0.0) <= NEAR  # False for NaN
        slope = (gradient * offset).sum(axis=1)
        follows = close & (np.abs(slope - 2 * gap) <= BOWL * 2 * gap)
        overtaken: ndarray = (gap > error) & (follows | (gap - error > self.hope * promise))
        return overtaken
