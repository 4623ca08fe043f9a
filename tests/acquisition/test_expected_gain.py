r"""The expected gain of the largest of several lines."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_risk.acquisition import LogRiskKnowledgeGradient, expected_gain
from botorch_risk.acquisition.expected_gain import (
    largest_log_gains,
    log_expected_gain,
    log_standard_improvement,
)
from botorch_risk.acquisition.expected_gain_on_host import best_gain_over_w


def by_quadrature(values: Tensor, slopes: Tensor) -> float:
    r"""Between the points where two lines cross the maximum is linear, and its mean exact."""
    count = len(values)
    cuts = sorted(
        float((values[j] - values[i]) / (slopes[i] - slopes[j]))
        for i in range(count)
        for j in range(i)
        if slopes[i] != slopes[j]
    )
    edges = torch.tensor([-math.inf, *cuts, math.inf], dtype=torch.double)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        middle = torch.nan_to_num((low + high) / 2, nan=0.0, posinf=low + 1, neginf=high - 1)
        best = (values + slopes * middle).argmax()
        share = torch.special.ndtr(high) - torch.special.ndtr(low)
        moved = (-low.square() / 2).exp() - (-high.square() / 2).exp()
        gain = values[best] - values.max()
        total += float(gain * share + slopes[best] * moved / math.sqrt(2 * math.pi))
    return total


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_it_is_the_mean_of_the_maximum(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values, slopes = torch.randn(2, count, generator=generator, dtype=torch.double)
    found = log_expected_gain(values, slopes).exp()
    expected = by_quadrature(values, slopes)
    assert math.isclose(float(found), expected, rel_tol=1e-6, abs_tol=1e-12)


def test_lines_that_are_the_same_or_parallel_count_once() -> None:
    values = torch.tensor([0.0, 0.0, -1.0, 0.5], dtype=torch.double)
    slopes = torch.tensor([1.0, 1.0, 1.0, -0.3], dtype=torch.double)
    torch.testing.assert_close(
        log_expected_gain(values, slopes), log_expected_gain(values[[0, 3]], slopes[[0, 3]])
    )
    assert log_expected_gain(values, torch.full_like(slopes, 0.7)) == -math.inf


def test_a_gain_that_is_zero_in_floating_point_has_a_logarithm() -> None:
    values = torch.tensor([0.0, -100.0], dtype=torch.double)
    slopes = torch.tensor([0.0, 1.0], dtype=torch.double)
    found = float(log_expected_gain(values, slopes))
    leading = -(100.0**2) / 2 - math.log(2 * math.pi) / 2 - 2 * math.log(100.0)
    assert math.isclose(found, leading + math.log1p(-3 / 100.0**2), abs_tol=1e-6)


def test_its_gradient_is_that_of_differences() -> None:
    generator = torch.Generator().manual_seed(3)
    values, slopes = torch.randn(2, 5, 6, generator=generator, dtype=torch.double)
    assert torch.autograd.gradcheck(
        log_expected_gain, (values.requires_grad_(), slopes.requires_grad_())
    )
    u = torch.tensor([-60.0, -3.0, -1.0, 0.0, 4.0], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(log_standard_improvement, u)


def test_its_gradient_is_finite_where_its_series_far_out_would_not_be() -> None:
    u = torch.tensor([-math.sqrt(3), math.nextafter(-math.sqrt(3), 0)], dtype=torch.double)
    u = u.requires_grad_()
    (slope,) = torch.autograd.grad(log_standard_improvement(u).sum(), u)
    ratio = torch.special.ndtr(u) / log_standard_improvement(u).exp()  # of Phi to its integral
    torch.testing.assert_close(slope, ratio)


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


def test_lines_that_all_cross_in_one_point() -> None:
    slopes = torch.tensor([0.2, -1.0, 0.7, 0.0], dtype=torch.double)
    found = log_expected_gain(torch.zeros(4, dtype=torch.double), slopes).exp().item()
    assert math.isclose(found, 1.7 / math.sqrt(2 * math.pi))


def test_in_numpy_it_is_what_it_is_for_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""Random lines, equal ones, ones that hide each other, and gains far below any number."""
    generator = torch.Generator().manual_seed(5)
    values, slopes = torch.randn(2, 40, 8, generator=generator, dtype=torch.double)
    slopes[0] = 0.7
    values[1, 3:], slopes[1, 3:] = values[1, 0], slopes[1, 0]
    values[2, 1:] -= 200.0
    values[3] = 0.0
    found = []
    for on_host in (True, False):
        monkeypatch.setattr(expected_gain, "are_on_host", lambda *X, on_host=on_host: on_host)
        inputs = values.clone().requires_grad_(), slopes.clone().requires_grad_()
        gain = log_expected_gain(*inputs)
        found.append((gain, *torch.autograd.grad(gain.sum(), inputs)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert found[0][0][0] == -math.inf and -math.inf < found[0][0][2] < -1000


@pytest.mark.parametrize("scale", [1e-3, 0.1, 10.0])
def test_a_bound_never_rules_out_the_largest_gain(scale: float) -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(4, 3, 12, generator=generator, dtype=torch.double)
    slopes = scale * torch.randn(4, 50, 12, generator=generator, dtype=torch.double)
    slopes[1] = 0.7  # no candidate of this row has a gain
    excluded = torch.rand(4, 50, generator=generator) < 0.5
    every = log_expected_gain(values.unsqueeze(1), slopes.unsqueeze(2)).logsumexp(dim=-1)
    every = every.masked_fill(excluded, -math.inf)
    found = largest_log_gains(values, slopes, excluded)
    torch.testing.assert_close(found.amax(dim=-1), every.amax(dim=-1))
    assert (found >= every - 1e-12).all()
    assert (found == -math.inf)[excluded].all() and (found[1] == -math.inf).all()
    assert torch.equal(found.argmax(dim=-1)[[0, 2, 3]], every.argmax(dim=-1)[[0, 2, 3]])


def test_a_line_that_ties_with_the_best_decides_w() -> None:
    r"""Two lines are level; one w moves the second of them, the other w a line far behind."""
    values = torch.tensor([[1.0, 1.0, -3.0]], dtype=torch.double)
    slopes = torch.tensor([[0.0, 0.8, 0.0], [0.0, 0.0, 1.5]], dtype=torch.double)  # n_w x P
    alone = [float(log_expected_gain(values[0], row)) for row in slopes]
    assert alone[0] > alone[1] + 1
    gain, w, _ = best_gain_over_w(
        values.numpy(), slopes[None, None].numpy(), torch.ones(1, 1, 2).bool().numpy()
    )
    assert w.tolist() == [[0]]
    assert gain.item() == pytest.approx(alone[0])
    of_risks = SimpleNamespace(_conditioned=SimpleNamespace(risk=values))
    supported = torch.ones(1, 1, 2, dtype=torch.bool)
    index: Any = LogRiskKnowledgeGradient._index_of_best
    assert index(of_risks, slopes[None, None], supported).tolist() == [[0]]
