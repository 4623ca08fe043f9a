r"""Random walks inside a polytope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from botorch_risk.engine.optim.polytope import ROUNDING, Polytope
from botorch_risk.engine.optim.polytope_proposals import Proposal
from botorch_risk.seeding import Draws

# A walk has this many rounds, and this many more for each column that moves; a round has a move for
# each of them.
ROUNDS, ROUNDS_PER_COLUMN = 20, 10


@dataclass(frozen=True)
class Walk(Proposal):
    r"""Columns whose points are the ends of random walks from the centre.

    A walk follows random lines (hit-and-run [Smith1984hitandrun]_) and whole steps of a discrete
    column, or of two that compensate each other. Settings that no such walk reaches are left out.
    """

    def put(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> ndarray:
        r"""Put each walk at its first point, the centre, and return that all are inside."""
        points[..., self.columns] = np.asarray(polytope.center)[self.columns]
        return np.ones(points.shape[:-1], dtype=bool)

    def walk(self, polytope: Polytope, points: ndarray, seeds: Sequence[int]) -> None:
        r"""Walk from each of the points `R x n x d`, in place."""
        count, d = points.shape[1:]
        flat = points.reshape(-1, d)
        spread, steps = _directions(polytope, self.columns)
        unit = np.eye(d)[self.columns]
        length = polytope.length[self.columns]
        matrix = np.concatenate([polytope.matrix, unit, -unit])
        limit = np.concatenate([polytope.limit, length, np.zeros(len(length))])
        draws = Draws(seeds, "walk", int(self.columns[0]))

        def uniforms() -> ndarray:
            return draws.uniforms(count).flatten()

        num_stepped = np.isin(polytope.stepped, self.columns).sum() if len(steps) else 0
        for _ in range(ROUNDS + ROUNDS_PER_COLUMN * (len(spread) + num_stepped)):
            for _ in range(len(spread)):
                direction = draws.normals(count, len(spread)).reshape(len(flat), -1) @ spread
                _along(flat, direction, matrix, limit, uniforms())
            for _ in range(num_stepped):
                step = steps[(uniforms() * len(steps)).astype(int)]
                _along(flat, step, matrix, limit, uniforms(), whole=True)
        points[...] = polytope.on_equalities(flat, polytope.target).reshape(
            points.shape
        )  # without rounding


def _along(
    points: ndarray,
    direction: ndarray,
    matrix: ndarray,
    limit: ndarray,
    uniforms: ndarray,
    whole: bool = False,
) -> None:
    r"""Move points `n x d`, in place, to a uniform point of the line through each of them."""
    # A limit that is exceeded by rounding stops the move, as one that is reached does.
    rise, slack = direction @ matrix.T, (limit - points @ matrix.T).clip(0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = slack / abs(rise)
    up = np.where(rise > 0, reach, np.inf).min(axis=1)
    down = np.where(rise < 0, reach, np.inf).min(axis=1)
    if whole:
        up, down = np.floor(up + ROUNDING), np.floor(down + ROUNDING)
        length = np.floor(uniforms * (up + down + 1)).clip(0, up + down) - down
    else:
        length = uniforms * (up + down) - down
    points += length[:, None] * direction


def _directions(polytope: Polytope, columns: ndarray) -> tuple[ndarray, ndarray]:
    r"""Directions of a walk: continuous ones, `k x d`, whose random sums fit the polytope's shape,
    and whole steps of one or two discrete columns, which continuous ones make up for.
    """
    free = np.intersect1d(polytope.free, columns)
    spread = np.zeros((0, polytope.d))
    if len(free):
        # The spread of corners that linear programs find: steps are long where the polytope is.
        generator = np.random.default_rng(0)
        goals = [*np.eye(polytope.d)[free], *-np.eye(polytope.d)[free]]
        goals += [*generator.standard_normal((4 * len(free), polytope.d))]
        corners = [polytope.extreme(goal, relaxed=True) for goal in goals]
        found = np.stack([corner for corner in corners if corner is not None])
        moves = (found - found.mean(axis=0)) @ polytope.moves
        moves[:, np.setdiff1d(np.arange(polytope.d), free)] = 0.0
        _, sizes, axes = np.linalg.svd(moves, full_matrices=False)
        spread = (sizes[:, None] * axes)[sizes > 1e-8 * max(sizes.max(initial=0.0), 1e-300)]
    stepped = [column for column in polytope.stepped if column in columns]
    steps = np.concatenate([np.eye(polytope.d)[stepped], polytope.exchanges])
    steps = steps[steps[:, stepped].any(axis=1)]
    made_up = polytope.on_equalities(steps, np.zeros_like(polytope.target))
    keeps = abs(made_up @ polytope.equal.T).max(axis=1, initial=0.0) <= ROUNDING
    return spread, made_up[keeps]
