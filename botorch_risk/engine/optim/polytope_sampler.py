r"""Uniform points of a polytope, some columns of which are discrete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.optim.polytope import Polytope
from botorch_risk.engine.optim.polytope_proposals import Proposal, in_box, proposal_of
from botorch_risk.engine.optim.polytope_walk import Walk
from botorch_risk.seeding import Draws, sobol_points_of_each

# The least share of proposals inside for which points are proposed and rejected, and the number of
# proposals by which it is measured.
LEAST_ACCEPTED, MEASURED = 1 / 64, 2**13


@dataclass(frozen=True)
class PolytopeSampler:
    r"""Draw points with a constant density: every setting of discrete columns has a weight, the
    volume of continuous columns that the constraints leave to it.

    Columns that share a constraint, directly or through others, are drawn together:

    - discrete ones from the list of all settings;
    - others uniformly in a simplex around them, if one constraint defines one, or in their box,
      with a column solved for per equality. Points outside are rejected: the draws are exact;
    - if fewer than one proposal in 64 is inside, each point is the end of a random walk
      from the centre of the polytope; see `Walk`.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import unit
        >>> whole = (torch.arange(3), torch.ones(3), 1.0)  # x_0 + x_1 + x_2 == 1
        >>> mixtures = Polytope.of(unit.expand(2, 3), equality_constraints=[whole])
        >>> PolytopeSampler(mixtures).sobol([0, 1], 4).sum(dim=-1)
        tensor([[1.0000, 1.0000, 1.0000, 1.0000],
                [1.0000, 1.0000, 1.0000, 1.0000]], dtype=torch.float64)
    """

    polytope: Polytope

    def sobol(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Points that fill the polytope evenly, a function of each seed, `R x num_points x d`.

        They are the first of each seed's scrambled Sobol points that lie inside.
        """
        return self.polytope.points(self.search_points(seeds, num_points))

    def uniform(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Independent uniform points, a function of each seed, `R x num_points x d`."""

        def uniforms(count: int) -> ndarray:
            return Draws(seeds, "uniform").uniforms(count, self.polytope.d)

        return self.polytope.points(self._accepted(uniforms, seeds, num_points))

    def search_points(self, seeds: Sequence[int], num_points: int) -> ndarray:
        r"""The search points of `sobol`."""

        def uniforms(count: int) -> ndarray:
            found: ndarray = sobol_points_of_each(seeds, count, self.polytope.d).numpy()
            return found

        return self._accepted(uniforms, seeds, num_points)

    def _accepted(
        self, uniforms: Callable[[int], ndarray], seeds: Sequence[int], num_points: int
    ) -> ndarray:
        r"""The first proposals of each seed that are inside, `R x num_points x d`.

        `uniforms` returns as many first numbers of each seed as asked for, `R x count x d`.
        """
        parts, count = _parts_of(self.polytope), num_points
        points, inside = _proposed(self.polytope, parts, uniforms(count))
        while inside.sum(axis=1).min(initial=num_points) < num_points:
            count *= 2  # the first half of the numbers is the same, and so is what was accepted
            points, inside = _proposed(self.polytope, parts, uniforms(count))
        first = np.argsort(~inside, axis=1, kind="stable")[:, :num_points]
        points = np.take_along_axis(points, first[:, :, None], axis=1)
        for part in parts:
            if isinstance(part, Walk):
                part.walk(self.polytope, points, seeds)
        return points


def _proposed(
    polytope: Polytope, parts: Sequence[Proposal], uniforms: ndarray
) -> tuple[ndarray, ndarray]:
    r"""Search points `... x d` from uniform numbers, and which are inside."""
    points = in_box(polytope, uniforms)
    inside = np.ones(points.shape[:-1], dtype=bool)
    for part in parts:
        inside &= part.put(polytope, points, uniforms)
    return points, inside


@lru_cache(maxsize=64)
def _parts_of(polytope: Polytope) -> list[Proposal]:
    r"""The columns that are drawn together, and how, by a few linear programs."""
    parts = [proposal_of(polytope, columns) or Walk(columns) for columns in _joined(polytope)]
    # A pilot of its own: the way in which points are drawn must not depend on their seeds.
    pilot = sobol_points_of_each([0], MEASURED, polytope.d)[0].numpy()
    shares = [float(_proposed(polytope, [part], pilot)[1].mean()) for part in parts]
    while np.prod(shares) < LEAST_ACCEPTED:
        worst = int(np.argmin(shares))
        parts[worst] = Walk(parts[worst].columns)
        shares[worst] = 1.0
    return parts


def _joined(polytope: Polytope) -> list[ndarray]:
    r"""Columns with a limit, those together that share one."""
    groups: list[set[int]] = []
    for row in (*polytope.matrix, *polytope.equal):
        touched = set(np.flatnonzero(row).tolist())
        apart = [group for group in groups if not group & touched]
        groups = [*apart, touched.union(*(group for group in groups if group & touched))]
    return [np.array(sorted(group)) for group in groups]
