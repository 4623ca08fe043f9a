r"""Arithmetic in the second-order cone, by its defining equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_risk.risk.mmd_interior_point import (
    NesterovToddScaling,
    determinant,
    inverse_step,
    product,
    quotient,
)


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
    torch.testing.assert_close(scaling.apply(s), scaling.apply_inverse(z))
    torch.testing.assert_close(scaling.apply_twice(s), z)
    torch.testing.assert_close(scaling.apply_inverse(scaling.apply(v)), v)
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
