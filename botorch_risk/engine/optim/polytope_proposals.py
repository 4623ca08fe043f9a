r"""Uniform proposals for the columns of a polytope that share constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import lgamma

import numpy as np
from numpy import ndarray

from botorch_risk.engine.optim.polytope import ROUNDING, Polytope

# The settings of discrete columns that are listed, at most.
MOST_LISTED = 2**16


def in_box(polytope: Polytope, uniforms: ndarray) -> ndarray:
    r"""Uniform search points without constraints, from numbers in [0, 1), `... x d`."""
    points = uniforms * polytope.length
    for column, values in polytope.values.items():
        index = np.floor(uniforms[..., column] * len(values))
        points[..., column] = index.clip(0, len(values) - 1)
    return points


@dataclass(frozen=True)
class Proposal:
    r"""Proposals in the box of columns that share constraints; equalities determine some."""

    columns: ndarray
    # Which columns the equalities determine, as many as `equal` has rows for them.
    solved: ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    def put(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> ndarray:
        r"""Write proposals into the columns of points `... x d`, and return which are inside.

        `uniforms` are numbers in [0, 1), `... x d`, from which the points are made.
        """
        self._propose(polytope, points, uniforms)
        return self._clip(polytope, points)

    def _propose(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> None:
        rows = rows_of(polytope.equal, self.columns)
        if not len(rows):
            return
        points[..., self.solved] = 0.0
        left = polytope.target[rows] - points @ polytope.equal[rows].T
        inverse = np.linalg.inv(polytope.equal[np.ix_(rows, self.solved)])
        points[..., self.solved] = left @ inverse.T

    def _clip(self, polytope: Polytope, points: ndarray) -> ndarray:
        r"""Remove the rounding at the bounds, and return which points are inside."""
        rows, same = (rows_of(each, self.columns) for each in (polytope.matrix, polytope.equal))
        part, length = points[..., self.columns], polytope.length[self.columns]
        inside = ((part >= -ROUNDING) & (part <= length + ROUNDING)).all(axis=-1)
        over = points @ polytope.matrix[rows].T - polytope.limit[rows]
        off = abs(points @ polytope.equal[same].T - polytope.target[same])
        points[..., self.columns] = part.clip(0.0, length)
        within: ndarray = inside & (over <= ROUNDING).all(axis=-1) & (off <= ROUNDING).all(axis=-1)
        return within


@dataclass(frozen=True)
class Simplex(Proposal):
    r"""Proposals in a simplex: one constraint on a sum of distances from one corner of the box."""

    # The weight of each distance, positive.
    weights: ndarray = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0  # the sum, or the largest one
    from_above: bool = False  # whether distances are from the upper bounds
    is_equal: bool = False

    @property
    def _num_drawn(self) -> int:
        return len(self.columns) - self.is_equal

    def log_volume(self) -> float:
        r"""The log volume of the simplex; for an equality, of its projection along one column."""
        size = self._num_drawn
        logs = np.sort(np.log(self.weights))[:size]  # the largest weight is solved for
        return float(size * np.log(max(self.total, 1e-300)) - logs.sum() - lgamma(size + 1))

    def _propose(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> None:
        # What is left after each column is a power of a uniform number: the largest of as many as
        # there are columns to come.
        left, size = np.full(points.shape[:-1], self.total), self._num_drawn
        for index, column in enumerate(self.columns):
            share = left
            if index < size:
                rest = left * (1.0 - uniforms[..., column]) ** (1.0 / (size - index))
                share, left = left - rest, rest
            distance = share / self.weights[index]
            points[..., column] = 1.0 - distance if self.from_above else distance


@dataclass(frozen=True)
class Listed(Proposal):
    r"""Proposals from a list, `n x columns`, of all settings of discrete columns."""

    settings: ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def _propose(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> None:
        row = (uniforms[..., self.columns[0]] * len(self.settings)).astype(int)
        points[..., self.columns] = self.settings[row.clip(0, len(self.settings) - 1)]


def proposal_of(polytope: Polytope, columns: ndarray) -> Proposal | None:
    r"""The proposal with the smallest volume; None if discrete columns are too many to list."""
    free = np.intersect1d(polytope.free, columns)
    if not len(free):
        settings = polytope.settings(MOST_LISTED, columns)
        return None if settings is None else Listed(columns, settings=settings)
    if len(free) == len(columns):
        smallest = min(_simplices(polytope, columns), key=Simplex.log_volume, default=None)
        if smallest is not None and smallest.log_volume() < 0:
            return smallest
    solved = _solvable(polytope, columns, free)
    return None if solved is None else Proposal(columns, solved)


def _solvable(polytope: Polytope, columns: ndarray, free: ndarray) -> ndarray | None:
    r"""One continuous column for each equality; None if an equality has discrete columns alone."""
    same = rows_of(polytope.equal, columns)
    solved: list[int] = []
    left = polytope.equal[same].copy()
    for _ in same:  # the columns whose sums have the largest range
        sizes = abs(left[:, free])
        row, index = np.unravel_index(sizes.argmax(), sizes.shape)
        column = int(free[index])
        if sizes[row, index] <= ROUNDING:
            return None
        solved.append(column)
        pivot = left[row] / left[row, column]
        left = left - left[:, column, None] * pivot
        left[row] = 0.0
    return np.array(solved, dtype=int)


def _simplices(polytope: Polytope, columns: ndarray) -> list[Simplex]:
    r"""The simplices round the points that one limit allows, from either corner of the box."""
    found = []
    same, rows = (rows_of(each, columns) for each in (polytope.equal, polytope.matrix))
    if len(same) <= 1:  # a simplex has the equality as its own
        for row in same:
            weights, total = polytope.equal[row, columns], float(polytope.target[row])
            for sign in (1.0, -1.0):  # the limit from both sides
                found += _simplex(columns, sign * weights, sign * total)
        found = [replace(each, is_equal=True) for each in found]
    if not len(same):
        for row in rows:
            found += _simplex(columns, polytope.matrix[row, columns], float(polytope.limit[row]))
    return found


def _simplex(columns: ndarray, weights: ndarray, limit: float) -> list[Simplex]:
    r"""The simplex `weights @ x <= limit`, if all weights have one sign."""
    if (weights > 0).all():
        return [Simplex(columns, weights=weights, total=limit)]
    if (weights < 0).all():
        total = limit - weights.sum()
        return [Simplex(columns, weights=-weights, total=total, from_above=True)]
    return []


def rows_of(matrix: ndarray, columns: ndarray) -> ndarray:
    r"""The rows of a matrix that have an entry other than 0 in some columns."""
    return np.flatnonzero(matrix[:, columns].any(axis=1))
