r"""The restricted program of an MMD ball against the whole one and against a cone program."""

import pytest
import torch
from torch import Tensor

from botorch_risk.risk import maximum_mean_discrepancy_worst_distribution, mmd, mmd_few_points
from botorch_risk.risk.mmd_few_points import FEW, MANY_ROWS, PASSES, solve_on_few_points
from botorch_risk.risk.mmd_interior_point import BallProgram
from tests import oracles

NUM_POINTS = MANY_ROWS + 14
LARGE, SMALL = 0.6, 0.02  # radii whose worst distributions have few points and many


def instance(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    r"""Values `count x n_w`, weights, and a kernel matrix with as many rows as points."""
    stream = torch.Generator().manual_seed(seed)
    draw = {"generator": stream, "dtype": torch.float64}
    points = torch.rand(NUM_POINTS, 4, **draw)
    weights = torch.rand(NUM_POINTS, **draw)
    matrix = torch.tensor(oracles.squared_exponential(points.numpy(), 0.2))
    values = torch.randn(count, 4, **draw) @ points.T + 0.2 * torch.randn(count, NUM_POINTS, **draw)
    return values, weights / weights.sum(), matrix


def program_of(count: int, radius: float) -> tuple[Tensor, BallProgram]:
    values, weights, matrix = instance(count)
    B = torch.linalg.cholesky(matrix).mT / radius
    lowest, highest = values.amin(dim=-1, keepdim=True), values.amax(dim=-1, keepdim=True)
    centre = weights.expand_as(values).contiguous()
    return B, BallProgram.start((values - lowest) / (highest - lowest), centre, centre @ B.T)


@pytest.mark.parametrize("radius", [LARGE, 0.3, SMALL])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.handful
def test_the_worst_case_is_that_of_a_cone_program(radius: float, seed: int) -> None:
    values, weights, matrix = instance(3, seed)
    worst = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, radius)
    for row, found in zip(values, (worst * values).sum(dim=-1), strict=True):
        expected = oracles.mmd_worst_case(row.numpy(), weights.numpy(), matrix.numpy(), radius)
        assert abs(found.item() - expected) <= 1e-6 * (row.max() - row.min())


def test_few_points_are_enough_in_a_large_ball(monkeypatch: pytest.MonkeyPatch) -> None:
    B, program = program_of(5, LARGE)
    solve_on_few_points(B, program, 1e-8)
    assert (program.gap <= 1e-8).all() and (program.gap >= -1e-12).all()
    assert ((program.distribution > 1e-6).sum(dim=-1) <= FEW).all()
    values, weights, matrix = instance(5)
    quick = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, LARGE)
    monkeypatch.setattr(mmd, "MANY_ROWS", NUM_POINTS)
    whole = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, LARGE)
    torch.testing.assert_close((quick * values).sum(-1), (whole * values).sum(-1))


def test_what_they_are_too_few_for_keeps_a_bound_and_a_distribution_in_the_ball() -> None:
    B, program = program_of(5, SMALL)
    first = program.value.clone()
    solve_on_few_points(B, program, 1e-8)
    assert (program.gap > 1e-3).all()
    assert (program.value < first).all() and (program.bound > 0).all()
    distribution = program.distribution
    assert (distribution >= 0).all()
    torch.testing.assert_close(distribution.sum(dim=-1), torch.ones(5).double())
    assert ((distribution @ B.T - program.image).norm(dim=-1) <= 1 + 1e-9).all()
    values, weights, matrix = instance(5)
    worst = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, SMALL)
    costs = (values - values.amin(-1, True)) / (values.amax(-1, True) - values.amin(-1, True))
    assert (program.bound <= (costs * worst).sum(dim=-1) + 1e-8).all()


def test_a_factor_that_fails_costs_time_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    values, weights, matrix = instance(3)
    expected = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, LARGE)
    improve, calls = mmd_few_points._improve, []

    def coinciding(B: Tensor, program: BallProgram, points: Tensor, tolerance: float) -> Tensor:
        calls.append(len(points))
        return improve(B, program, points[:, :1].expand_as(points), tolerance)

    monkeypatch.setattr(mmd_few_points, "_improve", coinciding)
    found = maximum_mean_discrepancy_worst_distribution(values, weights, matrix, LARGE)
    assert calls == [3] * PASSES
    torch.testing.assert_close((found * values).sum(-1), (expected * values).sum(-1))
