r"""Steps of a descent within linear constraints: many small quadratic programs at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray

# How far a limit may be exceeded, relative to the terms that cancel in its excess, and the share of
# a limit's curvature that is left when it follows from those that already bind: both are rounding.
TOLERANCE, DEPENDENT = 1e-13, 1e-11
# A step that is shorter is rounding; one that leads farther outside is refused.
SHORTEST, OUTSIDE = 1e-13, 1e-10
# Each limit may come and go a few times before a program is given up.
MAX_CHANGES = 10


@dataclass(frozen=True)
class Polyhedron:
    r"""Points with `matrix @ x <= limit` that differ by moves in a subspace.

    Args:
        matrix: `m x p`, with rows of length about 1.
        limit: The largest values of the `m` products.
        moves: The orthogonal projection of a move onto the allowed ones, `p x p`: those that keep
            equalities and fixed columns.
    """

    matrix: ndarray
    limit: ndarray
    moves: ndarray

    @cached_property
    def normals(self) -> ndarray:
        r"""The gradient of each constraint, projected onto the allowed moves, `m x p`."""
        normals: ndarray = self.matrix @ self.moves
        return normals

    def slack(self, x: ndarray) -> ndarray:
        r"""The slack of each constraint at points `rows x p`, `rows x m`."""
        left: ndarray = self.limit - x @ self.matrix.T
        return left

    def step(self, x: ndarray, gradient: ndarray, metric: ndarray) -> tuple[ndarray, ndarray]:
        r"""The step from each point to the minimum of a quadratic model within the constraints.

            min_s  gradient' s + s' metric^-1 s / 2   subject to  matrix (x + s) <= limit

        Args:
            x: Points within the constraints, `rows x p`.
            gradient: `rows x p`.
            metric: Inverse Hessians, `rows x p x p`, whose range are the allowed moves.

        Returns:
            The steps, and the gradients at `x` plus the constraints' gradients times their
            multipliers, both `rows x p`. Both are 0 at a stationary point. If a metric is too steep
            to be solved with, only the step is 0: a descent then drops the metric.
        """
        slack = self.slack(x).clip(0.0)
        step, multipliers, solved = quadratic_programs(metric, gradient, self.normals, slack)
        step = step @ self.moves  # rounding, which a long metric stretches
        left = gradient @ self.moves + multipliers @ self.normals
        fits = solved & ((slack - step @ self.matrix.T).min(axis=1, initial=0.0) >= -OUTSIDE)
        # A step that is rounding alone would be read as curvature.
        is_step = fits & (abs(step).max(axis=1) > SHORTEST)
        return np.where(is_step[:, None], step, 0.0), np.where(
            (is_step | ~fits)[:, None], left, 0.0
        )

    def nearest(self, x: ndarray) -> tuple[ndarray, ndarray]:
        r"""The nearest points inside by allowed moves, `rows x p`, and which rows have one."""
        rows, p = x.shape
        metric = np.broadcast_to(self.moves, (rows, p, p))
        step, _, solved = quadratic_programs(metric, np.zeros_like(x), self.normals, self.slack(x))
        return x + step, solved


def quadratic_programs(
    metric: ndarray, gradient: ndarray, matrix: ndarray, slack: ndarray
) -> tuple[ndarray, ndarray, ndarray]:
    r"""Minimise `gradient' s + s' metric^-1 s / 2` subject to `matrix s <= slack` in each row.

    The dual active-set method [Goldfarb1983dual]_, exact up to rounding after a few changes of the
    active set. All of it is in terms of `matrix metric matrix'`, so metrics may be singular.

    Args:
        metric: `rows x p x p`, positive semi-definite.
        gradient: `rows x p`.
        matrix: `m x p`, the same in all rows.
        slack: `rows x m`.

    Returns:
        The minima `rows x p`, the multipliers `rows x m`, and whether each row has been solved; if
        not, its constraints exclude each other.
    """
    bent = matrix @ metric  # rows x m x p
    kernel = bent @ matrix.T  # rows x m x m
    free = (metric @ gradient[:, :, None])[:, :, 0]
    excess = -free @ matrix.T - slack  # of the minimum without limits
    multipliers = np.zeros(excess.shape)
    solved = np.ones(len(excess), dtype=bool)
    rows = np.flatnonzero((excess > TOLERANCE).any(axis=1))
    left = _Programs(kernel[rows], excess[rows])
    for _ in range(MAX_CHANGES * (1 + excess.shape[1])):
        if not rows.size:
            break
        done, impossible = left.change()
        multipliers[rows[done]] = left.multipliers[done]
        solved[rows[impossible]] = False
        rows, left = rows[~(done | impossible)], left.some(~(done | impossible))
    solved[rows] = False
    step = -free - (multipliers[:, None, :] @ bent)[:, 0]
    return step, multipliers, solved


class _Programs:
    r"""Programs that are not solved yet, each with an active set and a limit that enters it."""

    def __init__(self, kernel: ndarray, excess: ndarray) -> None:
        self.kernel, self.excess = kernel, excess
        self.diagonal = kernel.diagonal(axis1=1, axis2=2)
        self.multipliers = np.zeros(excess.shape)
        self.active = np.zeros(excess.shape, dtype=bool)
        self.entering = np.full(len(excess), -1)

    def some(self, which: ndarray) -> _Programs:
        if which.all():
            return self
        part = _Programs(self.kernel[which], self.excess[which])
        part.multipliers, part.active = self.multipliers[which], self.active[which]
        part.entering = self.entering[which]
        return part

    def change(self) -> tuple[ndarray, ndarray]:
        r"""Change each active set by one limit; returns which programs are solved or impossible."""
        every = np.arange(len(self.excess))
        # The excess of each limit at the minimum that the present multipliers give.
        over = self.excess - (self.kernel @ self.multipliers[:, :, None])[:, :, 0]
        most = np.where(self.active, -np.inf, over).argmax(axis=1)
        is_new = self.entering < 0
        entering = self.entering = np.where(is_new, most, self.entering)
        terms = abs(self.excess).max(axis=1) + (self.diagonal * self.multipliers).max(axis=1)
        done = is_new & (over[every, entering] <= TOLERANCE * (1.0 + terms))
        column = self.kernel[every, :, entering]
        # Rows of the identity in place of limits that are not active: one shape, so that one call
        # solves all programs.
        both = self.active[:, :, None] & self.active[:, None, :]
        among = np.where(both, self.kernel, 0.0) + ~self.active[:, :, None] * np.eye(over.shape[1])
        bound = np.where(self.active, column, 0.0)
        # By how much the active multipliers fall as the entering one rises by 1, if their limits
        # stay binding, and by how much the entering limit's excess then falls.
        share = np.linalg.solve(among, bound[:, :, None])[:, :, 0]
        whole = column[every, entering]
        bend = whole - (share * bound).sum(axis=1)
        # A full step makes the entering limit bind. It is cut short where the first of the active
        # multipliers reaches 0: its limit leaves, and the same limit goes on entering.
        with np.errstate(divide="ignore", invalid="ignore"):
            full = np.where(bend > DEPENDENT * whole, over[every, entering] / bend, np.inf)
            ratio = np.where(self.active & (share > 0), self.multipliers / share, np.inf)
        leaving = ratio.argmin(axis=1)
        length = np.minimum(full, ratio[every, leaving])
        # Nothing ends the step: the dual is unbounded, and the limits exclude each other.
        impossible = ~done & ~np.isfinite(length)
        length = np.where(done | impossible, 0.0, length)[:, None]
        self.multipliers -= length * share
        self.multipliers[every, entering] += length[:, 0]
        enters = ~done & ~impossible & (full <= ratio[every, leaving])
        leaves = ~done & ~impossible & ~enters
        self.active[every[enters], entering[enters]] = True
        self.active[every[leaves], leaving[leaves]] = False
        self.multipliers[every[leaves], leaving[leaves]] = 0.0
        self.entering = np.where(enters, -1, entering)
        return done, impossible
