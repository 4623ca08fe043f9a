r"""Rounded and repeated contexts, and the bandwidth that is learnt from them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from botorch_risk.environments import (
    KernelDensity,
    KernelDensityEnvironment,
    leave_one_out_bandwidth,
)
from botorch_risk.environments.kernel_density import copies, rounding_step, spread_within_cells

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
FLOOR = torch.tensor([1e-6], dtype=torch.double)


def normal(t: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (0.5 + 0.1 * torch.randn(t, 1, generator=generator, dtype=torch.double)).clamp(0, 1)


def rounded(W: Tensor, step: float) -> Tensor:
    return (W / step).round() * step


def l1_error(observed: Tensor, bandwidth: Tensor) -> float:
    r"""Between the density and the distribution of `normal`, by the trapezoidal rule."""
    grid = torch.linspace(0, 1, 2001, dtype=torch.double).unsqueeze(-1)
    density = KernelDensity(observed, bandwidth, UNIT).log_prob(grid).exp()
    truth = torch.distributions.Normal(0.5, 0.1).log_prob(grid.squeeze(-1)).exp()
    return torch.trapezoid((density - truth).abs(), grid.squeeze(-1)).item()


@pytest.mark.parametrize("bounds", [None, UNIT], ids=["whole line", "box"])
@pytest.mark.parametrize(("t", "step"), [(30, 0.1), (100, 0.1), (100, 0.02), (300, 0.02)])
def test_rounding_does_not_collapse_the_bandwidth(
    t: int, step: float, bounds: Tensor | None
) -> None:
    for seed in range(4):
        W = normal(t, seed)
        exact = leave_one_out_bandwidth(W, FLOOR, bounds).item()
        found = leave_one_out_bandwidth(rounded(W, step), FLOOR, bounds).item()
        assert max(0.4 * step, 0.6 * exact) - 1e-9 <= found <= 1.6 * max(exact, 0.4 * step)


def test_rounding_hardly_changes_the_density() -> None:
    for t, step, most in ((100, 0.02, 1.15), (300, 0.02, 1.15), (100, 0.1, 1.6)):
        errors = []
        for seed in range(6):
            W = normal(t, seed)
            coarse = rounded(W, step)
            errors.append(
                [l1_error(w, leave_one_out_bandwidth(w, FLOOR, UNIT)) for w in (W, coarse)]
            )
        exact, found = torch.tensor(errors).mean(dim=0).tolist()
        assert found <= most * exact + 0.01


def test_repeated_contexts_are_one_piece_of_evidence_each() -> None:
    W = normal(40)
    exact = leave_one_out_bandwidth(W, FLOOR)
    for copies_of in (torch.cat([W, W]), W.repeat_interleave(5, dim=0)):
        torch.testing.assert_close(
            leave_one_out_bandwidth(copies_of, FLOOR), exact, rtol=1e-3, atol=0
        )
    # Some at a bound, as where contexts are clipped.
    clipped = (4 * (W - 0.5)).clamp(0.0, 1.0)
    width = leave_one_out_bandwidth(clipped, FLOOR, UNIT)
    inside = clipped[(clipped > 0) & (clipped < 1)].unsqueeze(-1)
    assert width > 0.3 * leave_one_out_bandwidth(inside, FLOOR, UNIT)


def test_every_value_the_same_is_not_learnt_from() -> None:
    W = torch.full((5, 2), 0.3, dtype=torch.double)
    W[:, 1] = normal(5).squeeze(-1)
    floor = torch.full((2,), 1e-3, dtype=torch.double)
    widths = leave_one_out_bandwidth(W, floor)
    assert widths[0] <= 3e-3
    alone = leave_one_out_bandwidth(W[:, 1:], floor[1:])
    torch.testing.assert_close(widths[1:], alone, rtol=1e-3, atol=0)
    distribution = KernelDensityEnvironment(W, UNIT.expand(2, 2), 8, 0, bandwidth="leave_one_out")
    assert distribution.at_floor.tolist() == [True, False]


def test_replicates_are_rounded_each_by_itself() -> None:
    exact = torch.stack([normal(60, 0), normal(60, 1)])
    W = torch.stack([exact[0], rounded(exact[1], 0.1)])
    together = leave_one_out_bandwidth(W, FLOOR.expand(2, 1), UNIT)
    for r in range(2):
        torch.testing.assert_close(together[r], leave_one_out_bandwidth(W[r], FLOOR, UNIT))


STEPS = [
    ([0.1, 0.3, 0.1, 0.8], 0.0),  # 0.8 is no multiple of 0.2 from 0.1
    ([0.1, 0.3, 0.1, 0.9], 0.2),
    ([0.1, 0.3, 0.5, 0.9], 0.0),  # nothing repeats
    ([0.1, 0.30000000000000004, 0.3, 0.2], 0.1),  # equal but for rounding
    ([-3.0, 5.0, -3.0], 8.0),
    ([0.7, 0.7, 0.7], 0.0),
    ([1e6, 1e6 + 0.5, 1e6 + 0.5, 1e6 + 2], 0.5),
]


@pytest.mark.parametrize(("values", "step"), STEPS, ids=str)
def test_the_step_is_the_common_divisor_of_values_that_repeat(
    values: list[float], step: float
) -> None:
    found = rounding_step(torch.tensor(values, dtype=torch.double).unsqueeze(-1)).item()
    assert math.isclose(found, step, rel_tol=1e-6)


def test_values_spread_within_their_cells_and_the_bounds() -> None:
    W = rounded(torch.rand(200, 2, dtype=torch.double), 0.25)
    step = torch.tensor([0.25, 0.0], dtype=torch.double)
    spread = spread_within_cells(W, step, UNIT.expand(2, 2))
    assert torch.equal(spread[:, 1], W[:, 1])
    assert ((spread - W).abs() <= 0.125).all()
    assert ((spread >= 0) & (spread <= 1)).all()
    assert spread[:, 0].unique().numel() == 200
    inner = spread[(W[:, 0] == 0.5), 0] - 0.5
    assert inner.min() < -0.08 and inner.max() > 0.08 and inner.mean().abs() < 0.03
    assert (spread[W[:, 0] == 0.0, 0] > 0).all()  # folded back
    assert torch.equal(
        spread_within_cells(W[:50], step, None)[10], spread_within_cells(W, step, None)[10]
    )


def test_copies_are_equal_in_a_column_that_tells() -> None:
    W = torch.tensor([[0.5, 0.123, 1.0], [0.5, 0.123, 2.0], [0.5, 0.777, 1.0], [0.5, 0.901, 3.0]])
    found = copies(W.double(), torch.tensor([0.0, 0.0, 1.0]).double())
    expected = torch.eye(4, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(found, expected)


def test_values_as_near_as_the_tolerance_are_one() -> None:
    W = torch.tensor([[0.0], [1e-9], [3e-9], [1.0]], dtype=torch.double)
    expected = torch.eye(4, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(copies(W, torch.zeros(1).double()), expected)
