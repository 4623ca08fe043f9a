r"""The minimax approximation of the worst case over an MMD ball, between its two bounds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from botorch_risk.risk import MinimaxApproximation, maximum_mean_discrepancy_worst_case
from tests.risk.cases import risk_kernel
from tests.risk.test_mmd import matrix_of, tensors


def minimax(points: Tensor, radius: float, sensitivity: str = "kernel") -> MinimaxApproximation:
    measure = MinimaxApproximation(radius, risk_kernel, sensitivity)  # type: ignore[arg-type]
    return measure.bind(SimpleNamespace(points=points))


def test_minimax_approximation_at_radius_zero_and_huge() -> None:
    values, weights, points = tensors(1)
    for sensitivity in ("kernel", "identity"):
        risk = minimax(points, 0.0, sensitivity)(values, weights)
        torch.testing.assert_close(risk, (weights * values).sum(dim=-1))
        risk = minimax(points, 2.0, sensitivity)(values, weights)
        assert torch.equal(risk, values.amin(dim=-1))
    assert torch.equal(minimax(points[:1], 0.1)(values[:, :1], torch.ones(1)), values[:, 0])
    certain = torch.eye(20, dtype=torch.float64)[values[0].argmin()]
    assert torch.equal(minimax(points, 0.1)(values[0], certain), values[0].min())


def test_bounds_where_the_ball_holds_every_distribution() -> None:
    values, weights, points = tensors(1)
    mean = (weights * (values + 1)).sum(dim=-1)
    low, high = minimax(points, 2.0).bounds(values, values + 1, weights)
    torch.testing.assert_close(low, values.amin(dim=-1))
    torch.testing.assert_close(high, (mean + values.amin(dim=-1) + 1) / 2)


def test_only_the_kernel_sensitivity_gives_a_true_lower_bound() -> None:
    values, weights, points = tensors(2, n_w=6, rows=200)
    radius = 0.05
    exact = maximum_mean_discrepancy_worst_case(values, weights, matrix_of(points), radius)
    mean, least = (weights * values).sum(dim=-1), values.amin(dim=-1)
    apart = torch.eye(6, dtype=torch.float64)[values.argmin(dim=-1)] - weights
    farthest = ((apart @ matrix_of(points)) * apart).sum(dim=-1).sqrt()
    chord = torch.lerp(mean, least, (radius / farthest).clamp_max(1.0))
    assert (exact <= chord + 1e-7).all()
    lower = {
        name: 2 * minimax(points, radius, name)(values, weights) - chord
        for name in ("kernel", "identity")
    }
    assert (lower["kernel"] <= exact + 1e-7).all()
    assert (lower["identity"] > exact + 1e-3).any()


def test_a_ball_that_holds_the_smallest_value_gives_it_also_with_the_identity() -> None:
    r"""Points that are nearly one: the drop over the radius says less than the ball does."""
    values, weights, points = tensors(3, n_w=6)
    risk = minimax(1e-3 * points, 0.02, "identity")(values, weights)
    assert torch.equal(risk, values.amin(dim=-1))


def test_replicates_with_points_of_their_own_equal_the_loop() -> None:
    r"""Far apart, so that the lower bound is above the smallest value."""
    points = 9 * torch.rand(3, 5, 2, dtype=torch.float64)
    values, weights = torch.randn(3, 4, 5).double(), torch.rand(3, 1, 5).double().softmax(dim=-1)
    for radius in (0.01, 0.1, 0.5):
        together = minimax(points, radius)(values, weights)
        for r in range(3):
            alone = minimax(points[r], radius)(values[r], weights[r])
            torch.testing.assert_close(together[r], alone)


def test_unknown_sensitivity() -> None:
    with pytest.raises(ValueError, match=r"`sensitivity` to be one of .* Got .*'none'"):
        MinimaxApproximation(0.1, risk_kernel, "none")  # type: ignore[arg-type]
