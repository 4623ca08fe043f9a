r"""The interior-point solver and its cone."""

from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.risk import mmd_interior_point
from botorch_risk.risk.mmd_interior_point import (
    BallProgram,
    BallRows,
    NesterovToddScaling,
    determinant,
    inverse_step,
    product,
    quotient,
    solve_programs,
)

NUM_POINTS, RANK = 12, 4


def programs(count: int, seed: int = 0) -> tuple[Tensor, BallProgram]:
    r"""Random costs from 0 to 1 and centres, under one `B: r x n_w`."""
    stream = torch.Generator().manual_seed(seed)
    draw = {"generator": stream, "dtype": torch.float64}
    B = 3 * torch.randn(RANK, NUM_POINTS, **draw)
    costs = torch.rand(count, NUM_POINTS, **draw)
    costs = costs - costs.amin(dim=-1, keepdim=True)
    costs = costs / costs.amax(dim=-1, keepdim=True)
    centre = torch.rand(count, NUM_POINTS, **draw)
    centre = centre / centre.sum(dim=-1, keepdim=True)
    return B, BallProgram.start(costs, centre, centre @ B.T)


class _Factor(NamedTuple):
    L: Tensor
    info: Tensor


def by_cone_program(B: Tensor, costs: Tensor, image: Tensor) -> float:
    p = cp.Variable(NUM_POINTS, nonneg=True)
    inside = cp.norm(B.numpy() @ p - image.numpy()) <= 1
    return cp.Problem(cp.Minimize(costs.numpy() @ p), [cp.sum(p) == 1, inside]).solve(cp.CLARABEL)


@pytest.mark.parametrize("seed", range(3))
def test_certified_minimum_is_that_of_a_cone_program(seed: int) -> None:
    B, program = programs(5, seed)
    solve_programs(BallRows(B), program, 1e-8)
    assert (program.gap <= 1e-8).all() and (program.gap >= -1e-12).all()
    expected = [by_cone_program(B, c, a) for c, a in zip(program.costs, program.image, strict=True)]
    np.testing.assert_allclose(program.value, expected, atol=1e-6)
    assert (program.distribution >= 0).all()
    torch.testing.assert_close(program.distribution.sum(dim=-1), torch.ones(5).double())
    assert ((program.distribution @ B.T - program.image).norm(dim=-1) <= 1 + 1e-9).all()


def test_programs_do_not_notice_each_other() -> None:
    B, together = programs(6)
    solve_programs(BallRows(B), together, 1e-9)
    for row in range(6):
        _, all_rows = programs(6)
        alone = all_rows.take(torch.tensor([row]))
        solve_programs(BallRows(B), alone, 1e-9)
        torch.testing.assert_close(alone.value[0], together.value[row], rtol=0, atol=1e-9)


def test_bounds_hold_also_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    B, exact = programs(4)
    solve_programs(BallRows(B), exact, 1e-10)
    monkeypatch.setattr(mmd_interior_point, "ATTEMPTS", ((0.95, 3),))
    _, early = programs(4)
    solve_programs(BallRows(B), early, 1e-10)
    assert (early.gap > 1e-10).any()
    assert (early.bound <= exact.value + 1e-12).all()
    assert (early.value >= exact.bound - 1e-12).all()


def test_a_matrix_that_rounding_made_indefinite_is_hardly_shifted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    r"""Two of three factorisations count as failed; the directions are Newton's all the same."""
    B, expected = programs(4)
    solve_programs(BallRows(B), expected, 1e-9)
    factorise, calls = torch.linalg.cholesky_ex, []

    def sometimes_failing(matrix: Tensor) -> _Factor:
        L, info = factorise(matrix)
        calls.append(len(calls) % 3 != 0)
        return _Factor(L, info + calls[-1])

    monkeypatch.setattr(torch.linalg, "cholesky_ex", sometimes_failing)
    _, found = programs(4)
    solve_programs(BallRows(B), found, 1e-9)
    assert sum(calls) > 2
    torch.testing.assert_close(found.value, expected.value, rtol=0, atol=1e-8)


def test_the_table_of_products_gives_the_same_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    B, _ = programs(1)
    diagonal = torch.rand(40, NUM_POINTS, dtype=torch.float64)
    with_table = BallRows(B).gram(diagonal)
    monkeypatch.setattr(mmd_interior_point, "PAIRS_WORTHWHILE", 1000)
    torch.testing.assert_close(BallRows(B).gram(diagonal), with_table)
    G = torch.cat([torch.ones(1, NUM_POINTS).double(), B])
    torch.testing.assert_close(with_table[7], G @ torch.diag(diagonal[7]) @ G.T)


def inside(seed: int, size: int = 4, rows: int = 50) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    tail = torch.randn(rows, size, generator=generator, dtype=torch.float64)
    margin = torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    return torch.cat([tail.norm(dim=-1, keepdim=True) + margin, tail], dim=-1)


def test_quotient_undoes_the_product() -> None:
    u, v = inside(0), torch.randn(50, 5, dtype=torch.float64)
    torch.testing.assert_close(quotient(u, product(u, v)), v)


def test_scaling_takes_both_points_to_one() -> None:
    z, s = inside(0), inside(1)
    scaling, v = NesterovToddScaling.of(z, s), torch.randn(50, 5, dtype=torch.float64)
    torch.testing.assert_close(scaling.apply_twice(s), z)
    torch.testing.assert_close(scaling.apply(scaling.apply(v)), scaling.apply_twice(v))


def test_step_ends_at_the_boundary() -> None:
    v, direction = inside(0), torch.randn(50, 5, dtype=torch.float64)
    inverse = inverse_step(v, direction)
    ends = inverse > 0
    assert 0 < ends.sum() < 50
    boundary = (v + direction / inverse.unsqueeze(-1))[ends]
    torch.testing.assert_close(
        determinant(boundary).squeeze(-1), torch.zeros_like(boundary[:, 0]), rtol=0, atol=1e-9
    )
    assert (boundary[:, 0] >= 0).all()
    assert (determinant(v + 100 * direction)[~ends] > 0).all()


@pytest.mark.parametrize("distance", [1e-3, 1e-9, 1e-15])
def test_determinant_near_the_boundary(distance: float) -> None:
    v = torch.tensor([[1.0 + distance, 1.0, 0.0]], dtype=torch.float64)
    gap = v[0, 0] - 1  # what is left of the distance after rounding
    torch.testing.assert_close(determinant(v)[0, 0], gap * (2 + gap))
