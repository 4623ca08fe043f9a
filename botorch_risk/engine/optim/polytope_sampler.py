r"""Uniform points of a polytope, some columns of which are discrete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import lgamma

import numpy as np
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.optim.polytope import ROUNDING, Polytope
from botorch_risk.seeding import derive_seed, sobol_points_of_each

# The settings of discrete columns that are listed, at most: 2^18 of ten columns are 20 MB.
MOST_LISTED = 2**18
# The least share of proposals inside for which points are proposed and rejected; the proposals by
# which it is measured; and how many of a replicate are drawn at a time.
LEAST_ACCEPTED, MEASURED, BLOCK = 1 / 64, 2**13, 256
# Random walks from the centre: this many rounds, and this many more for each direction.
ROUNDS, ROUNDS_PER_DIRECTION = 20, 10


@dataclass(frozen=True)
class PolytopeSampler:
    r"""Draw points with a constant density: every setting of discrete columns counts as it would in
    the box, by the volume of the continuous columns that the limits leave to it.

    Columns that share a limit, directly or by others, are drawn together:

    - discrete ones from the list of all settings;
    - others uniformly in a simplex round them, if one limit makes one, or in their box, with as
      many columns solved for as there are equalities, and rejected outside. This is exact;
    - where fewer than one proposal in 64 is inside, by a random walk along random lines
      (hit-and-run [Smith1984hitandrun]_) and whole steps, from the centre for each point anew.

    Args:
        polytope: What to draw from.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
        >>> whole = (torch.arange(3), torch.ones(3), 1.0)  # x_0 + x_1 + x_2 == 1
        >>> mixtures = Polytope.of(bounds, equality_constraints=[whole])
        >>> PolytopeSampler(mixtures).sobol([0, 1], 4).sum(dim=-1)
        tensor([[1.0000, 1.0000, 1.0000, 1.0000],
                [1.0000, 1.0000, 1.0000, 1.0000]], dtype=torch.float64)
    """

    polytope: Polytope

    @cached_property
    def _parts(self) -> list[_Part]:
        return _parts_of(self.polytope)

    def sobol(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Points that fill the polytope evenly, a function of each seed, `R x num_points x d`.

        The first of each seed's scrambled Sobol points that are inside.
        """
        return self.polytope.points(self.search_points(seeds, num_points))

    def uniform(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Independent uniform points, a function of each seed, `R x num_points x d`."""
        streams = [np.random.default_rng(derive_seed(seed, "uniform")) for seed in seeds]

        def of_each(rows: Sequence[int], first: int, count: int) -> ndarray:
            return np.stack([streams[row].random((count, self.polytope.d)) for row in rows])

        return self.polytope.points(self._accepted(of_each, seeds, num_points))

    def search_points(self, seeds: Sequence[int], num_points: int) -> ndarray:
        r"""The search points of `sobol`."""

        def of_each(rows: Sequence[int], first: int, count: int) -> ndarray:
            some = [seeds[row] for row in rows]
            found: ndarray = sobol_points_of_each(some, first + count, self.polytope.d).numpy()
            return found[:, first:]

        return self._accepted(of_each, seeds, num_points)

    def _accepted(
        self,
        uniforms: Callable[[Sequence[int], int, int], ndarray],
        seeds: Sequence[int],
        num_points: int,
    ) -> ndarray:
        r"""The first proposals of each seed that are inside, `R x num_points x d`."""
        found: list[list[ndarray]] = [[] for _ in seeds]
        rows, first = list(range(len(seeds))), 0
        while rows:
            count = max(BLOCK, first)  # twice as many in all as before
            drawn = uniforms(rows, first, count)
            points, inside = self._proposed(drawn)
            for row, part, kept in zip(rows, points, inside, strict=True):
                found[row].extend(part[kept])
            rows = [row for row in rows if len(found[row]) < num_points]
            first += count
        points = np.stack([np.stack(each[:num_points]) for each in found])
        walks = [part for part in self._parts if isinstance(part, _Walk)]
        for part in walks:
            part.walk(self.polytope, points, seeds)
        return points

    def _proposed(self, uniforms: ndarray) -> tuple[ndarray, ndarray]:
        points = in_box(self.polytope, uniforms)
        inside = np.ones(points.shape[:-1], dtype=bool)
        for part in self._parts:
            inside &= part.put(self.polytope, points, uniforms)
        return points, inside


@lru_cache(maxsize=64)
def _parts_of(polytope: Polytope) -> list[_Part]:
    r"""The columns that are drawn together, and how, which takes a few linear programs."""
    parts = [_part_of(polytope, columns) for columns in _joined(polytope)]
    pilot = sobol_points_of_each([0], MEASURED, polytope.d)[0].numpy()
    shares = [part.share(polytope, pilot) for part in parts]
    while np.prod(shares) < LEAST_ACCEPTED:
        worst = int(np.argmin(shares))
        parts[worst] = _Walk(parts[worst].columns)
        shares[worst] = 1.0
    return parts


def in_box(polytope: Polytope, uniforms: ndarray) -> ndarray:
    r"""Uniform search points without limits, from numbers in [0, 1)."""
    points = uniforms * polytope.length
    for column, values in polytope.values.items():
        index = np.floor(uniforms[..., column] * len(values))
        points[..., column] = index.clip(0, len(values) - 1)
    return points


@dataclass(frozen=True)
class _Part:
    r"""Columns that share limits, in their box with some solved for.

    Args:
        columns: The columns.
        solved: Which columns the equalities determine, as many as `equal` has rows.
    """

    columns: ndarray
    solved: ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    def share(self, polytope: Polytope, uniforms: ndarray) -> float:
        r"""The share of proposals inside."""
        points = in_box(polytope, uniforms)
        return float(self.put(polytope, points, uniforms).mean())

    def put(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> ndarray:
        r"""Write proposals into their columns of points, and return which are inside."""
        self._propose(polytope, points, uniforms)
        return _is_inside(polytope, self.columns, points)

    def _propose(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> None:
        rows = _rows_of(polytope.equal, self.columns)
        if not len(rows):
            return
        points[..., self.solved] = 0.0
        left = polytope.target[rows] - points @ polytope.equal[rows].T
        inverse = np.linalg.inv(polytope.equal[np.ix_(rows, self.solved)])
        points[..., self.solved] = left @ inverse.T


@dataclass(frozen=True)
class _Simplex(_Part):
    r"""Columns in the simplex of one limit: a sum of distances from one corner of the box.

    Args:
        weights: The weight of each distance, positive.
        total: The sum, or the largest one.
        from_above: Whether distances are from the upper bounds.
        is_equal: Whether the sum is fixed.
    """

    weights: ndarray = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    from_above: bool = False
    is_equal: bool = False

    def log_volume(self) -> float:
        r"""Of the simplex; of an equality, its projection along one column, in all others."""
        size = len(self.columns) - self.is_equal
        logs = np.sort(np.log(self.weights))[:size]  # the largest weight is solved for
        return float(size * np.log(max(self.total, 1e-300)) - logs.sum() - lgamma(size + 1))

    def _propose(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> None:
        # What is left after each column is a power of a uniform number: the largest of as many as
        # there are columns to come.
        left = np.full(points.shape[:-1], self.total)
        size = len(self.columns) - self.is_equal
        for place, column in enumerate(self.columns):
            share = left
            if place < size:
                rest = left * (1.0 - uniforms[..., column]) ** (1.0 / (size - place))
                share, left = left - rest, rest
            distance = share / self.weights[place]
            points[..., column] = 1.0 - distance if self.from_above else distance


@dataclass(frozen=True)
class _Listed(_Part):
    r"""Discrete columns, whose settings within the limits are listed, `n x columns`."""

    settings: ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def _propose(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> None:
        row = (uniforms[..., self.columns[0]] * len(self.settings)).astype(int)
        points[..., self.columns] = self.settings[row.clip(0, len(self.settings) - 1)]


@dataclass(frozen=True)
class _Walk(_Part):
    r"""Columns whose points come from random walks."""

    def put(self, polytope: Polytope, points: ndarray, uniforms: ndarray) -> ndarray:
        points[..., self.columns] = np.asarray(polytope.center)[self.columns]
        return np.ones(points.shape[:-1], dtype=bool)

    def walk(self, polytope: Polytope, points: ndarray, seeds: Sequence[int]) -> None:
        r"""Walk from each of the points `R x n x d`, in place."""
        shape, d = points.shape[:2], polytope.d
        flat = points.reshape(-1, d)
        spread, steps = _directions(polytope, self.columns)
        normals = [polytope.matrix, np.eye(d)[self.columns], -np.eye(d)[self.columns]]
        length = polytope.length[self.columns]
        matrix = np.concatenate(normals)
        limit = np.concatenate([polytope.limit, length, np.zeros(len(length))])
        streams = [
            np.random.default_rng(derive_seed(seed, "walk", int(self.columns[0]))) for seed in seeds
        ]
        rounds = ROUNDS + ROUNDS_PER_DIRECTION * (len(spread) + len(steps))
        for _ in range(rounds):
            for _ in spread:
                normal = np.stack(
                    [each.standard_normal((shape[1], len(spread))) for each in streams]
                )
                direction = normal.reshape(-1, len(spread)) @ spread
                _along(flat, direction, matrix, limit, _flat_uniforms(streams, shape[1]))
            for step in steps:
                direction = np.broadcast_to(step, flat.shape)
                _along(
                    flat, direction, matrix, limit, _flat_uniforms(streams, shape[1]), whole=True
                )
        off = polytope.target - flat @ polytope.equal.T
        flat[:, polytope.free] += off @ polytope._inverse.T  # the rounding of many moves
        points[...] = flat.reshape(points.shape)


def _flat_uniforms(streams: Sequence[np.random.Generator], count: int) -> ndarray:
    return np.stack([each.random(count) for each in streams]).reshape(-1)


def _along(
    points: ndarray,
    direction: ndarray,
    matrix: ndarray,
    limit: ndarray,
    uniforms: ndarray,
    whole: bool = False,
) -> None:
    r"""Move points `n x d`, in place, to a uniform point of the line through each of them."""
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
    single = np.eye(polytope.d)[stepped]
    pairs = polytope._exchanges
    pairs = pairs[abs(pairs[:, stepped]).sum(axis=1) > 0] if len(pairs) else pairs
    steps = np.concatenate([single, pairs.reshape(-1, polytope.d)])
    made_up = steps.copy()
    made_up[:, polytope.free] -= steps @ polytope.equal.T @ polytope._inverse.T
    keeps = abs(made_up @ polytope.equal.T).max(axis=1, initial=0.0) <= ROUNDING
    return spread, made_up[keeps]


def _rows_of(matrix: ndarray, columns: ndarray) -> ndarray:
    r"""The rows that have an entry in some columns."""
    return np.flatnonzero(matrix[:, columns].any(axis=1))


def _is_inside(polytope: Polytope, columns: ndarray, points: ndarray) -> ndarray:
    r"""Whether the limits and bounds of some columns hold for points."""
    rows, same = _rows_of(polytope.matrix, columns), _rows_of(polytope.equal, columns)
    part, length = points[..., columns], polytope.length[columns]
    inside = ((part >= -ROUNDING) & (part <= length + ROUNDING)).all(axis=-1)
    over = points @ polytope.matrix[rows].T - polytope.limit[rows]
    off = abs(points @ polytope.equal[same].T - polytope.target[same])
    points[..., columns] = part.clip(0.0, length)
    within: ndarray = inside & (over <= ROUNDING).all(axis=-1) & (off <= ROUNDING).all(axis=-1)
    return within


def _joined(polytope: Polytope) -> list[ndarray]:
    r"""Columns with a limit, those together that share one."""
    groups: list[set[int]] = []
    for row in (*polytope.matrix, *polytope.equal):
        touched = set(np.flatnonzero(row).tolist())
        apart = [group for group in groups if not group & touched]
        groups = [*apart, touched.union(*(group for group in groups if group & touched))]
    return [np.array(sorted(group)) for group in groups]


def _part_of(polytope: Polytope, columns: ndarray) -> _Part:
    r"""The way to propose columns with the smallest volume."""
    free = np.intersect1d(polytope.free, columns)
    if not len(free):
        settings = _settings(polytope, columns)
        return _Walk(columns) if settings is None else _Listed(columns, settings=settings)
    same = _rows_of(polytope.equal, columns)
    simplices = []
    if len(free) == len(columns):
        for equal, rows in ((True, same), (False, _rows_of(polytope.matrix, columns))):
            if len(same) > equal:  # another equality
                continue
            for row in rows:
                simplices += _simplices(polytope, columns, row, equal)
    smallest = min(simplices, key=_Simplex.log_volume, default=None)
    if smallest is not None and smallest.log_volume() < 0:
        return smallest
    solved: list[int] = []
    left = polytope.equal[same].copy()
    for _ in same:  # the columns whose sums have the largest range
        sizes = abs(left[:, free])
        row, place = np.unravel_index(sizes.argmax(), sizes.shape)
        column = int(free[place])
        if sizes[row, place] <= ROUNDING:  # an equality of discrete columns alone
            return _Walk(columns)
        solved.append(column)
        pivot = left[row] / left[row, column]
        left = left - left[:, column, None] * pivot
        left[row] = 0.0
    return _Part(columns, np.array(solved, dtype=int))


def _simplices(polytope: Polytope, columns: ndarray, row: int, equal: bool) -> list[_Simplex]:
    r"""The simplices round the points that one limit allows, seen from two corners of the box."""
    weights = (polytope.equal if equal else polytope.matrix)[row, columns]
    total = float((polytope.target if equal else polytope.limit)[row])
    if (weights < 0).all():
        above = _Simplex(columns, weights=-weights, total=total - weights.sum(), from_above=True)
        below = _Simplex(columns, weights=-weights, total=-total)
        found = [above, below] if equal else [above]
    elif (weights > 0).all():
        below = _Simplex(columns, weights=weights, total=total)
        above = _Simplex(columns, weights=weights, total=weights.sum() - total, from_above=True)
        found = [below, above] if equal else [below]
    else:
        return []
    if equal:
        return [
            _Simplex(s.columns, s.solved, s.weights, s.total, s.from_above, True) for s in found
        ]
    return found


def _settings(polytope: Polytope, columns: ndarray) -> ndarray | None:
    r"""All settings of discrete columns within their limits, `n x columns`; None if too many."""
    rows, same = _rows_of(polytope.matrix, columns), _rows_of(polytope.equal, columns)
    every = np.concatenate([polytope.matrix[rows], polytope.equal[same], -polytope.equal[same]])
    most = np.concatenate([polytope.limit[rows], polytope.target[same], -polytope.target[same]])
    every = every[:, columns]
    length = polytope.length[columns]
    settings = np.zeros((1, 0))
    for place in range(len(columns)):
        steps = np.arange(length[place] + 1)
        if len(settings) * len(steps) > 64 * MOST_LISTED:
            return None
        settings = np.c_[
            np.repeat(settings, len(steps), axis=0), np.tile(steps, len(settings))[:, None]
        ]
        least = np.minimum(every[:, place + 1 :] * length[place + 1 :], 0.0).sum(axis=1)
        sums = settings @ every[:, : place + 1].T + least
        settings = settings[(sums <= most + ROUNDING).all(axis=1)]
        if len(settings) > MOST_LISTED:
            return None
    return settings
