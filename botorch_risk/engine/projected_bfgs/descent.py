r"""BFGS with projection, vectorised over rows.

Each row is a problem of its own with its own metric, line search, iteration count and status; only
the evaluations are shared, and finished rows are no longer evaluated.

The state, a few numbers per row, lives in NumPy by default, where an operation on a small array
takes a tenth of the time of a torch call, and the caller's objective moves the points to its own
device and precision. On an accelerator it lives on the device, and the host waits only
occasionally: finished rows stay, masked, until the next look. Steps of few rows are replayed from a
recording (`replayed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy import ndarray

from botorch_risk.engine.projected_bfgs.arrays import Alone, Array, Arrays, Objective
from botorch_risk.engine.projected_bfgs.leaders import Leaders
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from botorch_risk.engine.projected_bfgs.polyhedron import Polyhedron
from botorch_risk.engine.projected_bfgs.replayed import descend_by_replays, is_replayed
from botorch_risk.engine.projected_bfgs.step import RUNNING, Rows, Rules, advance, begin, end


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
        noise: The relative error of values, for example of ill-conditioned quadratic forms.
            Within this error a step is accepted if it shortens the gradient: near a minimum values
            are flat, so the same error in gradients hides far shorter steps.
        groups: The group of each row, `rows`, from 0 on, if only the lowest end of a group matters.
            A row ends as overtaken if it approaches the minimum of a lower row, or if even `hope`
            times its predicted decrease would leave it above a lower row. Both are heuristics and
            may abandon a row that would have found the lowest end.
        known: A known minimum of each group, `groups x p`, and its value, `groups`; NaN if there is
            none. Rows are compared with it as with rows of their group.
        hope: The factor of the second heuristic; infinite to use only the first.
        kinks: Whether the objective has kinks, as a maximum over outcomes does: rows then step to
            where tangents meet, and a row of a group ends on the way to the kink of a lower one.
        is_out_of_time: Called before each evaluation; if true, the rows end as at the iteration
            limit.
        device: The device of the state and of the objective's points, values and gradients, as
            float64 tensors. Default: NumPy arrays.
        within: Linear constraints, including bounds, in place of the box; the rows start within
            them and stay there. A step goes to the minimum of the quadratic model within them, as
            in sequential quadratic programming. It cannot be combined with `device`.

    Example:
        >>> target = np.array([[0.5], [2.0]])
        >>> objective = lambda x, rows: (((x - target[rows]) ** 2).sum(1), 2 * (x - target[rows]))
        >>> minimize_rows(objective, np.zeros((2, 1)), np.zeros(1), np.ones(1)).x.round(6)
        array([[0.5],
               [1. ]])
    """
    rules = Rules(
        max_iterations, gradient_tolerance, relative_tolerance, max_step, precision,
        decrease_tolerance, worthwhile, patience, noise, hope, kinks,
    )  # fmt: skip
    start = np.array(start, dtype=np.float64)
    if start.ndim != 2:
        raise ValueError(f"Expected `start` to have shape `rows x p`. Got {start.shape=}.")
    lower, upper = (np.broadcast_to(bound, start.shape) for bound in (lower, upper))
    if (lower > upper).any():
        raise ValueError(f"Expected `lower` <= `upper` in every entry. Got {lower=}, {upper=}.")
    rows = Rows.at(start, lower, upper, np.arange(len(start)), metric, within)
    leaders = None
    # A row by itself has no other to be overtaken by.
    if groups is not None and (known is not None or np.bincount(groups).max(initial=0) > 1):
        rows.group = groups
        leaders = Leaders.of(groups, start.shape[1], known, hope, kinks)
    on = Arrays(device)
    with np.errstate(all="ignore"):  # rows that a mask leaves out compute with NaN and infinity
        if is_replayed(on, rows):
            return descend_by_replays(on, rules, objective, rows, leaders)
        rows, leaders = _put(on, rows, leaders)
        return _descend(on, rules, objective, rows, leaders, is_out_of_time)


def _put(on: Arrays, rows: Rows, leaders: Leaders | None) -> tuple[Rows, Leaders | None]:
    if on.device is None:
        return rows, leaders
    moved = {name: on.put(np.array(getattr(rows, name))) for name in Rows.names()}
    on_device = None if leaders is None else leaders.on_device(on)
    return replace(rows, **moved), on_device


def _descend(
    on: Arrays,
    rules: Rules,
    objective: Objective,
    rows: Rows,
    leaders: Leaders | None,
    is_out_of_time: Callable[[], bool],
) -> Minima:
    r"""Descend by one evaluation after the other; finished rows are dropped."""
    result, by_rows = _Ends.of(rows), on
    on, rows, leaders = _alone(on, rows, leaders)
    begin(on, rules, rows, leaders, *on.evaluated(objective, rows.x, rows.index))
    rows = _retire(on, rows, result, at_least=0.0)
    steps = 0
    while rows.index.size:
        if is_out_of_time():
            end(on, rows, rows.status == RUNNING, RowStatus.ITERATION_LIMIT)
            _retire(on, rows, result, at_least=0.0)
            break
        on, rows, leaders = _alone(on, rows, leaders)
        advance(on, rules, rows, leaders, *on.evaluated(objective, rows.trial, rows.index))
        steps += 1
        if on.is_time_to_look(steps):
            rows = _retire(on, rows, result, on.few_finished)
    return result.on_host(by_rows)


def _alone(on: Arrays, rows: Rows, leaders: Leaders | None) -> tuple[Arrays, Rows, Leaders | None]:
    r"""The only row on the host by itself; several rows as they are."""
    is_only = on.device is None and len(rows.index) == 1 and rows.x.ndim > 1
    if not is_only or rows.within is not None:
        return on, rows, leaders
    on = Alone()
    return on, rows.keep(0, rows.index), leaders and replace(leaders, on=on)


@dataclass(frozen=True)
class _Ends:
    r"""The results of the caller's rows."""

    x: Array
    value: Array
    status: Array
    evaluations: Array
    metric: Array

    @classmethod
    def of(cls, rows: Rows) -> _Ends:
        # Copies by `+`, in either library, as they are written in place.
        return cls(*(getattr(rows, each.name) + 0.0 for each in fields(cls)))

    def enter(self, on: Arrays, rows: Rows, which: Array, owner: Array) -> None:
        r"""Enter the ends of some of the rows for their owners."""
        for name in ("x", "value", "status", "evaluations"):
            getattr(self, name)[owner] = getattr(rows, name)[which]
        # Nothing was learnt of a fresh metric.
        unknown = rows.fresh[which][..., None, None]
        self.metric[owner] = on.put_in(rows.metric[which], unknown, np.nan)

    def on_host(self, on: Arrays) -> Minima:
        ends = (getattr(self, f.name) for f in fields(self))
        x, value, status, evaluations, metric = on.get(*ends)
        return Minima(x, value, status.astype(int), evaluations.astype(int), metric)


def _retire(on: Arrays, rows: Rows, result: _Ends, at_least: float) -> Rows:
    r"""Write finished rows into the result and drop them if they are many."""
    (status,) = on.get(rows.status)
    finished = status != RUNNING
    count = np.count_nonzero(finished)
    if not count or count < at_least * finished.size:
        return rows
    if count == finished.size:
        result.enter(on, rows, ..., on.put(rows.index))
        return replace(rows, index=rows.index[:0])
    # Finished rows first, so that a device gets all indices in one upload.
    order = np.concatenate([np.flatnonzero(finished), np.flatnonzero(~finished)])
    which, owner = on.put(np.stack([order, rows.index[order]]))
    result.enter(on, rows, which[:count], owner[:count])
    return rows.keep(which[count:], rows.index[order[count:]])
