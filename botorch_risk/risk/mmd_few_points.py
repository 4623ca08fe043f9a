r"""The linear program of an MMD ball, solved over few points and certified over all of them.

The worst distribution of a large ball has its mass on few points. If the kernel matrix has many
rows, a program over these points and the centre costs little next to one over all (column
generation):

    min_v {c'p : p = p_0 + sum_j v_j (e_j - p_0), v >= 0, 1'v <= 1, |B p - a| <= 1}

Its dual nu also bounds the minimum over all points. Points whose slack `(c - B'nu)_j` is below that
of the others are added, and those without probability are dropped, until the bound is met.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_risk.risk.mmd_interior_point import BallProgram, RowsOfEach, solve_programs

FEW = 48  # points of the restricted program
PASSES = 3  # choices of points: one or two are enough if the optimum lies on so few
MANY_ROWS = 2 * FEW  # measured at 256 and 625 rows, where the restricted program pays


def solve_on_few_points(B: Tensor, program: BallProgram, tolerance: float) -> None:
    r"""Improve in place the distributions and bounds whose optimum lies on few points.

    The others keep their distribution and their bound, which remain valid. `B` is `r x n_w`, with r
    at least `FEW`; the tolerance limits the gap.
    """
    rows = (program.gap > tolerance).nonzero().squeeze(-1)
    order = program.costs[rows]
    for _ in range(PASSES):
        if not len(rows):
            return
        active, points = program.take(rows), order.topk(FEW, dim=-1, largest=False).indices
        order = _improve(B, active, points, tolerance)
        program.put(rows, active)
        left = (active.gap > tolerance).nonzero().squeeze(-1)
        rows, order = rows[left], order[left]


def _improve(B: Tensor, program: BallProgram, points: Tensor, tolerance: float) -> Tensor:
    r"""Solve over the points `b x FEW` of each candidate.

    Returns the order in which points should come in.
    """
    centre, a = program.centre, program.image
    away = B.T[points] - a.unsqueeze(-2)  # b x FEW x r
    # In coordinates of its own the span of these rows has `FEW` dimensions: away = factor @ Q.
    gram = away @ away.mT
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    diagonal += 1e-13 * diagonal.amax(dim=-1, keepdim=True)
    factor, failed = torch.linalg.cholesky_ex(gram)
    factor = torch.where((failed > 0)[:, None, None], torch.eye(FEW).to(gram), factor)

    at_centre = (program.costs * centre).sum(dim=-1, keepdim=True)
    columns = torch.cat([torch.zeros_like(factor[..., :1]), factor.mT], dim=-1)
    start = torch.zeros_like(columns[:, 0])
    start[:, 0] = 1
    costs = torch.cat([at_centre, program.costs.gather(-1, points)], dim=-1)
    small = BallProgram.start(costs, start, torch.zeros_like(costs[:, 1:]))
    solve_programs(RowsOfEach.of(columns), small, tolerance / 10)

    weights = small.distribution
    found = (weights[:, :1] * centre).scatter_add(-1, points, weights[:, 1:])
    distance = (found @ B.T - a).norm(dim=-1, keepdim=True)  # above 1 if the factor failed
    solution = torch.linalg.solve_triangular(factor.mT, small.dual.unsqueeze(-1), upper=True)
    nu = (away.mT @ solution).squeeze(-1)
    slack = program.costs - nu @ B
    mixed = torch.lerp(centre, found, (1 / distance).clamp_max(1.0))
    program.improve(mixed, slack, torch.zeros_like(program.value), nu)
    kept = slack.gather(-1, points).masked_fill(weights[:, 1:] > tolerance, -torch.inf)
    return slack.scatter(-1, points, kept)
