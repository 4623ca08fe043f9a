r"""Draws against torch's own engines, grids and quadratures by hand."""

import pytest
import torch

from botorch_risk.environments.uniforms import (
    SOBOL_RESOLUTION,
    box_points,
    checked_seeds,
    draw_uniforms,
    legendre_axes,
    normalized,
    points_per_axis,
    seeded_uniforms,
    tensor_grid,
)
from botorch_risk.seeding import Draws, sobol_points_of_each, streams

BOX = torch.tensor([[3.0, -4.0], [5.0, -1.0]], dtype=torch.double)


@pytest.mark.parametrize("dim", [1, 3])
def test_quasi_random_points_are_those_of_the_sequence_in_the_middle_of_its_cells(dim: int) -> None:
    found = seeded_uniforms(16, dim, [7, 8], "here")
    assert found.dtype == torch.float64
    expected = sobol_points_of_each(streams([7, 8], "here"), 16, dim) + 2.0**-31
    assert torch.equal(found, expected)
    assert SOBOL_RESOLUTION == 2.0**-30
    assert ((found > 0) & (found < 1)).all()


def test_independent_points_are_drawn_for_each_name() -> None:
    expected = Draws([7], "there").uniforms(5, 2)[0]
    assert torch.equal(seeded_uniforms(5, 2, 7, "there", quasi=False), torch.tensor(expected))
    assert not (seeded_uniforms(5, 2, 7, "here", quasi=False) == torch.tensor(expected)).any()


@pytest.mark.parametrize("quasi", [True, False])
@pytest.mark.parametrize("dim", [1, 3, 600])
def test_each_seed_has_its_own_points(dim: int, quasi: bool) -> None:
    seeds = [7, 8, 3]
    together = seeded_uniforms(5, dim, seeds, "here", quasi)
    assert together.shape == (3, 5, dim)
    for points, seed in zip(together, seeds, strict=True):
        assert torch.equal(points, seeded_uniforms(5, dim, seed, "here", quasi))
        assert torch.equal(seeded_uniforms(5, dim, [seed], "here", quasi), points.unsqueeze(0))


def test_uniforms_are_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""`torch.rand` draws from [0, 1), and quantiles of 0 are infinite."""
    generator = torch.Generator().manual_seed(0)
    assert draw_uniforms((2, 3), [generator, generator]).shape == (2, 2, 3)
    monkeypatch.setattr(torch, "rand", lambda shape, **options: torch.zeros(shape).double())
    smallest = draw_uniforms((3,), generator)
    assert (smallest > 0).all()
    assert (smallest < 1e-15).all()


def test_points_of_a_ball_fill_its_box() -> None:
    points = box_points(BOX, 256, [0, 1])
    assert points.shape == (2, 256, 2)
    expected = BOX[0] + (BOX[1] - BOX[0]) * seeded_uniforms(256, 2, [0, 1], "ball")
    torch.testing.assert_close(points, expected)
    assert ((points > BOX[0]) & (points < BOX[1])).all()
    torch.testing.assert_close(points.mean(dim=(0, 1)), BOX.mean(dim=0), atol=1e-2, rtol=0)


def test_a_quadrature_is_exact_for_polynomials() -> None:
    nodes, weights = legendre_axes(BOX, 4)
    assert nodes.shape == weights.shape == (4, 2)
    assert nodes.dtype == weights.dtype == torch.float64
    lower, upper = BOX
    for power in range(8):
        exact = (upper ** (power + 1) - lower ** (power + 1)) / (power + 1)
        torch.testing.assert_close((weights * nodes**power).sum(dim=0), exact)


def test_masses_must_sum_to_about_one() -> None:
    masses = torch.tensor([[0.25, 0.25, 0.5]], dtype=torch.double)
    for total in (0.9995, 1.0, 1.0005):
        torch.testing.assert_close(normalized(total * masses), masses)
    for total in (0.998, 1.002):
        both = torch.cat([masses, total * masses])
        with pytest.raises(ValueError, match=rf"Got 3 nodes with a sum of {total}"):
            normalized(both)


def test_grids_count_in_order() -> None:
    grid = tensor_grid([torch.tensor([0.0, 1.0]), torch.tensor([5.0, 6.0, 7.0])])
    assert grid.tolist() == [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]
    assert tensor_grid([torch.tensor([2.0, 3.0])]).tolist() == [[2.0], [3.0]]


def test_sizes_of_grids() -> None:
    assert [points_per_axis(n, d) for n, d in ((7, 1), (49, 2), (1000, 3), (1, 4))] == [7, 7, 10, 1]
    with pytest.raises(ValueError, match=r"fills a grid of 3 axes. Got 999; 1000 would"):
        points_per_axis(999, 3)


def test_seeds_are_needed_where_something_is_drawn() -> None:
    assert checked_seeds(0, "a ball") == 0
    assert checked_seeds([1, 2], "a ball") == [1, 2]
    with pytest.raises(ValueError, match=r"Expected `seeds` for a ball. Got seeds=None"):
        checked_seeds(None, "a ball")
