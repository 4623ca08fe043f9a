r"""The search for a true optimum, on functions whose maxima are known."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.test_functions.synthetic import Hartmann, SixHumpCamel

from botorch_risk.test_functions.global_search import local_maxima


@pytest.mark.parametrize("cls", [SixHumpCamel, lambda negate: Hartmann(dim=3, negate=negate)])
def test_finds_botorchs_optimizers(cls):
    problem = cls(negate=True)
    X, values = local_maxima(lambda X: problem(X, noise=False), problem._bounds)
    assert values[0].item() == pytest.approx(problem.optimal_value, abs=1e-4)
    for optimizer in problem.optimizers:
        assert (X - optimizer).abs().amax(dim=-1).min() < 1e-3


def test_keeps_every_maximum_apart_best_first():
    X, values = local_maxima(lambda X: torch.cos(4 * math.pi * X[:, 0]), [(0.0, 1.0)])
    assert (values.diff() <= 0).all()
    for maximum in (0.0, 0.5, 1.0):
        assert (X - maximum).abs().min() < 1e-6


def test_a_maximum_may_lie_on_the_bounds():
    X, values = local_maxima(lambda X: X[:, 0] - X[:, 1].exp(), [(-1.0, 2.0), (0.0, 3.0)])
    assert X[0].tolist() == [2.0, 0.0]
    assert values[0] == 1.0


def test_is_deterministic():
    first, second = (
        local_maxima(lambda X: -(X - 0.3).abs().pow(1.5).sum(-1), [(0.0, 1.0)]) for _ in range(2)
    )
    assert torch.equal(first[0], second[0])


def test_stays_inside_a_narrow_box():
    X, _ = local_maxima(lambda X: X[:, 0].sin(), [(1.0, 1.0 + 1e-9)])
    assert ((X >= 1.0) & (X <= 1.0 + 1e-9)).all()
