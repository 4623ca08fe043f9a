r"""The expected maximum of lines, against quadrature."""

from __future__ import annotations

import itertools
import math

import torch
from scipy.integrate import quad
from scipy.stats import norm

from botorch_risk.tables.gain import log_expected_gain


def by_quadrature(a: torch.Tensor, s: torch.Tensor) -> float:
    kinks = sorted(
        (-(a[i] - a[j]) / (s[i] - s[j])).item()
        for i in range(len(a))
        for j in range(i)
        if s[i] != s[j]
    )
    ends = [-12.0, *(kink for kink in kinks if abs(kink) < 12), 12.0]

    def excess(z: float) -> float:
        return (a + s * z).max().item() * norm.pdf(z)

    pieces = [quad(excess, *piece, epsabs=1e-13)[0] for piece in itertools.pairwise(ends)]
    return sum(pieces) - a.max().item()


def test_equals_quadrature() -> None:
    generator = torch.Generator().manual_seed(0)
    a, s = torch.randn(2, 20, 6, generator=generator).double()
    s[3], s[4, :3] = 0.7, 0.2  # no line takes over; parallel lines
    a[5] = 0.0  # all cross at one point
    gain = log_expected_gain(a, s).exp()
    for row in range(len(a)):
        assert abs(gain[row].item() - by_quadrature(a[row], s[row])) < 1e-9
    assert gain[3] == 0


def test_batches_are_loops_and_order_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(1)
    a, s = torch.randn(4, 1, 9, generator=generator), torch.randn(3, 9, generator=generator)
    a, s = a.double(), s.double()
    gain = log_expected_gain(a, s)
    assert gain.shape == (4, 3)
    order = torch.randperm(9, generator=generator)
    torch.testing.assert_close(log_expected_gain(a[..., order], s[..., order]), gain)
    for i in range(4):
        for j in range(3):
            torch.testing.assert_close(log_expected_gain(a[i, 0], s[j]), gain[i, j])


def test_gains_far_below_the_smallest_number_keep_their_order() -> None:
    a, s = torch.tensor([0.0, -60.0]).double(), torch.tensor([[0.0, 1.0], [0.0, 1.1]]).double()
    near, far = log_expected_gain(a, s)
    assert math.isfinite(near) and near < far < -1000
    one_line = log_expected_gain(torch.tensor([1.0]), torch.tensor([2.0]))
    assert one_line == -math.inf
