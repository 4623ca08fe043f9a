r"""The part of a search space within linear constraints: its nearest and neighbouring points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import permutations

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.engine.optim.constraints import Constraints, Plain, plain_constraints
from botorch_risk.engine.optim.discrete_columns import DiscreteColumns, discrete_columns
from botorch_risk.engine.optim.listed_settings import listed_settings
from botorch_risk.engine.projected_bfgs.polyhedron import Polyhedron

# How far a sum may be off by rounding, in units of its range in the box; how far it is off in the
# solution of a mixed-integer program, at most; and the longest exchange of steps of two columns.
ROUNDING, PRECISION = 1e-10, 1e-6
LONGEST_EXCHANGE = 64


@dataclass(frozen=True, eq=False)
class Polytope:
    r"""The part of a box that satisfies linear constraints, in the coordinates of a search.

    A search point is in the unit cube, except that discrete columns hold the index of a value.
    Constraints are linear in it, as the values are evenly spaced.

    Args:
        lower: The lower bounds, `d`.
        width: The ranges of the columns, `d`; 0 if one is fixed.
        values: The values of the discrete columns.
        matrix: `m x d` coefficients of inequalities in search points, `matrix @ x <= limit`, whose
            sums have a range of 1.
        limit: The largest sums, `m`.
        equal: `k x d` coefficients of equalities, likewise, `equal @ x == target`.
        target: The sums of the equalities, `k`.
    """

    lower: ndarray
    width: ndarray
    values: Mapping[int, ndarray]
    matrix: ndarray
    limit: ndarray
    equal: ndarray
    target: ndarray

    @classmethod
    def of(
        cls,
        bounds: Tensor,
        inequality_constraints: Constraints = None,
        equality_constraints: Constraints = None,
        discrete_dims: Mapping[int, Sequence[float]] | None = None,
        cat_dims: Mapping[int, Sequence[float]] | None = None,
    ) -> Polytope:
        r"""The polytope of constraints in the form of BoTorch's `optimize_acqf`.

        Args:
            bounds: Lower and upper bounds, `2 x d`.
            inequality_constraints: As in `optimize_acqf_replicates`, `n` columns each.
            equality_constraints: As in `optimize_acqf_replicates`, `n` columns each.
            discrete_dims: Ordered columns with a list of values, evenly spaced if constrained.
            cat_dims: Columns of categories, which cannot be constrained.

        Raises:
            UnsupportedError: If a constraint is on a category, on unevenly spaced values, or on
                several points at once.
            ValueError: If no point satisfies the constraints.

        Example:
            >>> from botorch_risk.examples import unit
            >>> whole = (torch.arange(3), torch.ones(3), 1.0)  # x_0 + x_1 + x_2 == 1
            >>> mixtures = Polytope.of(unit.expand(2, 3), equality_constraints=[whole])
            >>> point, has_one = mixtures.nearest(0.1 * torch.tensor([[9.0, 3.0, 1.0]]).double())
            >>> point.round(decimals=4)
            tensor([[0.8000, 0.2000, 0.0000]], dtype=torch.float64)
        """
        box = as_floating(bounds, "bounds").detach()
        discrete = discrete_columns(discrete_dims, cat_dims, box)
        return polytope_of(box, inequality_constraints, equality_constraints, discrete)

    @property
    def d(self) -> int:
        return len(self.lower)

    @cached_property
    def length(self) -> ndarray:
        r"""The range of each column of search points, `d`."""
        length = (self.width > 0).astype(float)
        for column, values in self.values.items():
            length[column] = len(values) - 1
        return length

    @cached_property
    def free(self) -> ndarray:
        r"""The continuous columns that are not fixed."""
        moves = self.length > 0
        moves[list(self.values)] = False
        return np.flatnonzero(moves)

    @cached_property
    def stepped(self) -> list[int]:
        r"""The discrete columns in constraints."""
        rows = np.concatenate([self.matrix, self.equal])
        return [column for column in self.values if rows[:, column].any()]

    @cached_property
    def moves(self) -> ndarray:
        r"""The projection onto moves of continuous columns that keep all equalities, `d x d`."""
        # I - A^+ A projects on the moves that leave `A x` as it is.
        moves = np.zeros((self.d, self.d))
        inner = np.eye(len(self.free)) - self._inverse @ self.equal[:, self.free]
        moves[np.ix_(self.free, self.free)] = inner
        return moves

    @cached_property
    def _inverse(self) -> ndarray:
        r"""How continuous columns change to shift the sums of equalities, `free x k`."""
        inverse: ndarray = np.linalg.pinv(self.equal[:, self.free], rcond=1e-10)
        return inverse

    @cached_property
    def polyhedron(self) -> Polyhedron:
        r"""The constraints on moves of continuous columns, bounds included."""
        unit = np.eye(self.d)[self.free]
        matrix = np.concatenate([self.matrix, unit, -unit])
        limit = np.concatenate([self.limit, np.ones(len(unit)), np.zeros(len(unit))])
        return Polyhedron(matrix, limit, self.moves)

    def contains(self, points: ndarray, rounding: float = ROUNDING) -> ndarray:
        r"""Whether search points `... x d` are within constraints and bounds, up to rounding."""
        over = (points @ self.matrix.T - self.limit).max(axis=-1, initial=0.0)
        off = abs(points @ self.equal.T - self.target).max(axis=-1, initial=0.0)
        inside = ((points >= -rounding) & (points <= self.length + rounding)).all(axis=-1)
        within: ndarray = inside & (over <= rounding) & (off <= rounding)
        return within

    def repaired(self, points: ndarray) -> tuple[ndarray, ndarray]:
        r"""Search points `rows x d`, moved in continuous columns to the nearest points inside.

        Also returns which rows have such a point.
        """
        if not len(points):
            return points, np.ones(0, dtype=bool)
        # First onto the equalities, which the moves of the polyhedron keep.
        points, solved = self.polyhedron.nearest(self.on_equalities(points, self.target))
        points[:, self.free] = points[:, self.free].clip(0.0, 1.0)
        return points, solved & self.contains(points)

    def on_equalities(self, points: ndarray, target: ndarray) -> ndarray:
        r"""Points `rows x d` after the least continuous change that gives equalities their sums."""
        points = points.copy()
        points[:, self.free] += (target - points @ self.equal.T) @ self._inverse.T
        return points

    def settings(self, most: int, columns: ndarray | None = None) -> ndarray | None:
        r"""All search points `n x d` of discrete columns; None if there are more than `most`.

        `columns` are discrete ones that share no constraint with others; all by default.
        """
        listed = np.arange(self.d) if columns is None else columns
        rows = np.concatenate([self.matrix, self.equal, -self.equal])[:, listed]
        limits = np.concatenate([self.limit, self.target, -self.target])
        limited = rows.any(axis=1)
        rows, limits, length = rows[limited], limits[limited], self.length[listed]
        return listed_settings(rows, limits, length, most, ROUNDING)

    def neighbors(self, columns: DiscreteColumns, points: ndarray) -> tuple[ndarray, ndarray]:
        r"""The neighbours, within the constraints, of `rows x d` search points; the row of each.

        They differ by a step of one column, or by an exchange of two that keeps a sum. Continuous
        columns move to the nearest point inside; a neighbour without such a point is dropped.
        """
        moved = points[:, None, :] + self.exchanges
        listed = [*self.values]
        inside = ((moved >= 0) & (moved <= self.length))[..., listed].all(axis=-1)
        stepped, of_steps = columns.neighbors(points)
        found = np.concatenate([stepped, moved[inside]])
        rows = np.concatenate([of_steps, np.nonzero(inside)[0]])
        outside = ~self.contains(found)
        kept = ~outside
        found[outside], kept[outside] = self.repaired(found[outside])
        order = np.flatnonzero(kept)
        order = order[np.argsort(rows[order], kind="stable")]
        return found[order], rows[order]

    @cached_property
    def exchanges(self) -> ndarray:
        r"""Steps of two discrete columns that compensate each other in a constraint, `n x d`."""
        found: dict[tuple[float, ...], None] = {}  # each move once, in order
        limits = [(row, True) for row in self.equal] + [(row, False) for row in self.matrix]
        for row, is_equal in limits:
            columns = [column for column in self.stepped if row[column]]
            for first, second in permutations(columns, 2):
                for sign in (-1, 1):
                    steps = _exchanged(row[first], row[second], sign, is_equal)
                    move = np.zeros(self.d)
                    move[[first, second]] = steps
                    if all(steps):
                        found[tuple(move)] = None
        return np.array([*found]).reshape(-1, self.d)

    def points(self, search_points: ndarray) -> Tensor:
        r"""Search points in the units of the bounds, in float64."""
        X = self.lower + self.width * search_points
        for column, values in self.values.items():
            X[..., column] = values[search_points[..., column].astype(int)]
        return torch.as_tensor(X)

    def nearest(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The points inside nearest to `X`, `... x d` within the bounds, and whether each has one.

        Discrete columns keep their values. A point that is inside up to rounding, or without a
        nearest one, is unchanged.
        """
        flat = X.detach().cpu().double().numpy().reshape(-1, self.d)
        found = (flat - self.lower) / np.where(self.width > 0, self.width, 1.0)
        for column, values in self.values.items():
            found[:, column] = abs(flat[:, column, None] - values).argmin(axis=-1)
        # Rounding of the user's dtype is not outside, or points in float32 would move each time.
        has_one = self.contains(found, max(ROUNDING, 64 * torch.finfo(X.dtype).eps))
        outside = np.flatnonzero(~has_one)
        moved, has_one[outside] = self.repaired(found[outside])
        moves = outside[has_one[outside]]
        nearest = X.detach().reshape(-1, self.d).clone()
        nearest[moves] = self.points(moved[has_one[outside]]).to(X)
        return nearest.reshape(X.shape), torch.as_tensor(has_one).reshape(X.shape[:-1])

    def extreme(self, direction: ndarray, relaxed: bool = False) -> ndarray | None:
        r"""A search point with the least product with a direction; None if nothing is inside."""
        return _least(self, direction, 0.0, relaxed)

    @cached_property
    def center(self) -> ndarray | None:
        r"""A search point as far inside all constraints as possible; None if nothing is inside."""
        return _least(self, np.zeros(self.d), 1.0)


def _exchanged(first: float, second: float, sign: int, is_equal: bool) -> tuple[int, int]:
    r"""Whole steps of two columns, by their coefficients in a limit.

    They keep the sum of an equality; if it is only limited, the first step is 1 up or down, and
    the sum does not rise.
    """
    ratio = first / second
    if is_equal:  # the shortest ones; continuous columns make up for what is left
        whole = Fraction(ratio).limit_denominator(LONGEST_EXCHANGE)
        return sign * whole.denominator, -sign * whole.numerator
    back = -ratio * sign
    return sign, int(np.floor(back + ROUNDING) if second > 0 else np.ceil(back - ROUNDING))


def _least(
    polytope: Polytope, direction: ndarray, depth: float, relaxed: bool = False
) -> ndarray | None:
    r"""The point with the least `direction @ x - depth * (distance to all limits)`.

    If it is relaxed, discrete columns have any numbers, and sums may be off by `PRECISION`.
    """
    columns = list(polytope.values)
    # A whole number may exceed a limit by less than the program sees: not if the limit is closer.
    for margin in (0.0, PRECISION):
        point = _solved(polytope, direction, depth, relaxed, margin)
        if point is None or relaxed:
            return point
        point[columns] = point[columns].round()
        point, inside = (each[0] for each in polytope.repaired(point[None]))
        if inside:
            return point
    return None


def _solved(
    polytope: Polytope, direction: ndarray, depth: float, relaxed: bool, margin: float
) -> ndarray | None:
    r"""The solution of a mixed-integer program up to its precision; None without one."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    d, length, unit = polytope.d, polytope.length, np.eye(polytope.d)[polytope.free]
    # One more variable, the distance r to all limits: `a x + |a| r <= limit`, and bounds likewise.
    apart = np.linalg.norm(polytope.matrix[:, polytope.free], axis=1)
    rows = [np.c_[polytope.matrix, apart]]
    limits = [polytope.limit - margin]
    for sign, bound in ((1.0, 1.0), (-1.0, 0.0)):
        rows.append(np.c_[sign * unit, np.ones(len(unit))])
        limits.append(np.full(len(unit), bound))
    every, target = np.concatenate(rows), polytope.target
    constraints = [LinearConstraint(every, -np.inf, np.concatenate(limits))] if len(every) else []
    if len(target):
        equal = np.c_[polytope.equal, np.zeros(len(target))]
        constraints.append(LinearConstraint(equal, target, target))
    integral = np.zeros(d + 1)
    if not relaxed:
        integral[polytope.stepped] = 1
    found = milp(
        np.r_[direction, -depth],
        integrality=integral,
        bounds=Bounds(np.zeros(d + 1), np.r_[length, 1.0 if depth else 0.0]),
        constraints=constraints,
    )
    return None if found.x is None else found.x[:d].clip(0.0, length)


def polytope_of(
    box: Tensor,
    inequality_constraints: Constraints,
    equality_constraints: Constraints,
    discrete: DiscreteColumns | None,
) -> Polytope:
    r"""Check constraints and return their polytope, the same object for the same arguments."""
    inequalities = tuple(
        plain_constraints("inequality_constraints", inequality_constraints, box.shape[-1])
    )
    equalities = tuple(
        plain_constraints("equality_constraints", equality_constraints, box.shape[-1])
    )
    lower, upper = (tuple(bound.tolist()) for bound in box.double())
    values: dict[int, tuple[float, ...]] = {}
    if discrete is not None:
        values = {column: tuple(each.tolist()) for column, each in discrete.values.items()}
    categorical = frozenset() if discrete is None else discrete.categorical
    made = _built(lower, upper, tuple(values.items()), categorical, inequalities, equalities)
    if made.center is None:
        raise ValueError(
            "Expected constraints that some point within the bounds satisfies. Got "
            f"{inequalities=}, {equalities=}, which exclude all points."
        )
    return made


@lru_cache(maxsize=64)
def _built(
    lower: tuple[float, ...],
    upper: tuple[float, ...],
    values: tuple[tuple[int, tuple[float, ...]], ...],
    categorical: frozenset[int],
    inequalities: tuple[Plain, ...],
    equalities: tuple[Plain, ...],
) -> Polytope:
    origin, width = np.array(lower), np.array(upper) - np.array(lower)
    unit, listed = width.copy(), {column: np.array(each) for column, each in values}
    steps = width > 0
    for column, each in listed.items():
        gaps = np.diff(each)
        unit[column] = gaps.mean() if len(gaps) else 0.0  # what a step of the index adds
        origin[column], steps[column] = each[0], len(gaps) > 0
        is_even = not len(gaps) or (abs(gaps - gaps.mean()) <= 1e-9 * gaps.mean()).all()
        limited = any(column in columns for columns, _, _ in (*inequalities, *equalities))
        if limited and (column in categorical or not is_even):
            kind = "of a category" if column in categorical else "that are not evenly spaced"
            raise UnsupportedError(
                f"Expected constraints on evenly spaced numbers. Got values {kind} in column "
                f"{column}."
            )
    length = steps.astype(float)
    for column, each in listed.items():
        length[column] = len(each) - 1

    def in_search_points(constraints: Iterable[Plain], sign: float) -> tuple[ndarray, ndarray]:
        rows, sums = [np.zeros((0, len(origin)))], []
        for columns, coefficients, least in constraints:
            row = np.zeros(len(origin))
            np.add.at(row, list(columns), coefficients)  # a column may be named twice
            left, row = least - row @ origin, row * unit
            # Over the range of the sum, so that a tolerance is a share of it.
            span = float(abs(row) @ length)
            scale = span or max(1.0, abs(least))
            rows.append(sign * row[None] / scale)
            sums.append(sign * left / scale)
        return np.concatenate(rows), np.array(sums)

    matrix, limit = in_search_points(inequalities, -1.0)
    equal, target = in_search_points(equalities, 1.0)
    kept = matrix.any(axis=1) | (limit < -ROUNDING)  # without coefficients: for all or no points
    same = equal.any(axis=1) | (abs(target) > ROUNDING)
    return Polytope(
        np.array(lower), width, listed, matrix[kept], limit[kept], equal[same], target[same]
    )
