r"""Radii of balls that are read from observed contexts."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.environments import (
    EmpiricalGrid,
    KernelDensityEnvironment,
    ObservedContexts,
    bootstrap_radius,
    cross_validated_radius,
)
from botorch_risk.risk import (
    Ball,
    ChiSquareBall,
    KullbackLeiblerBall,
    MaximumMeanDiscrepancyBall,
    TotalVariationBall,
    WassersteinBall,
)
from tests.risk.cases import risk_kernel

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
GRID = torch.linspace(0, 1, 3, dtype=torch.double)[:, None]
COUNTS = ObservedContexts(UNIT, lambda observed, bounds, seeds: EmpiricalGrid(observed, GRID))
DENSITY = ObservedContexts(UNIT, partial(KernelDensityEnvironment, n_w=48, rule="quadrature"))
TOTAL = TotalVariationBall(0.0)
EVERY = [
    TOTAL,
    WassersteinBall(0.0),
    MaximumMeanDiscrepancyBall(0.0, risk_kernel),
    KullbackLeiblerBall(0.0),
    ChiSquareBall(0.0),
]
RULES = [bootstrap_radius, cross_validated_radius]
rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
balls = pytest.mark.parametrize("ball", EVERY, ids=lambda ball: type(ball).__name__)


def draw(t: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(t, 1, generator=generator, dtype=torch.double).square()


def shares(observed: Tensor) -> np.ndarray:
    nearest = np.abs(observed.numpy() - GRID.numpy().T).argmin(axis=1)
    return np.array([(nearest == j).mean() for j in range(3)])


def test_leaving_out_groups_equals_a_loop() -> None:
    r"""The second largest of five distances is the first that covers 0.8 of them."""
    observed, groups = draw(40), torch.arange(40) % 5
    distances = sorted(
        np.abs(shares(observed[groups != g]) - shares(observed[groups == g])).sum()
        for g in range(5)
    )
    for coverage, place in ((0.2, 0), (0.6, 2), (0.79, 3), (0.8, 3), (0.81, 4), (0.99, 4)):
        found = cross_validated_radius(TOTAL, observed, COUNTS, coverage, groups=groups)
        assert found == pytest.approx(distances[place], abs=1e-12)


def test_halves_and_resamples_have_the_distribution_of_a_loop() -> None:
    r"""A quantile over many draws of ours is one of as many draws of NumPy's, to their noise."""
    observed, random = draw(60), np.random.default_rng(0)
    truth = shares(observed)
    halves = [random.permutation(60) for _ in range(4_000)]
    apart = {
        cross_validated_radius: [
            np.abs(shares(observed[h[:30]]) - shares(observed[h[30:]])).sum() for h in halves
        ],
        bootstrap_radius: [
            np.abs(shares(observed[random.integers(60, size=60)]) - truth).sum() for _ in halves
        ],
    }
    for rule, distances in apart.items():
        number = {"num_splits" if rule is cross_validated_radius else "num_resamples": 4_000}
        for coverage in (0.5, 0.9):
            found = rule(TOTAL, observed, COUNTS, coverage, **number)
            lower, upper = np.quantile(distances, [coverage - 0.03, coverage + 0.03])
            assert lower - 1e-12 <= found <= upper + 1e-12


@pytest.mark.slow
def test_balls_of_the_bootstrap_hold_the_true_distribution_as_often_as_they_say() -> None:
    r"""Of 200 samples of three outcomes."""
    truth, held = np.array([0.2, 0.5, 0.3]), 0
    for seed in range(200):
        outcomes = np.random.default_rng(seed).choice(3, size=50, p=truth)
        observed = GRID[torch.tensor(outcomes)]
        radius = bootstrap_radius(TOTAL, observed, COUNTS, 0.9, seed=seed)
        held += np.abs(shares(observed) - truth).sum() <= radius + 1e-12
    assert 165 <= held <= 195  # a binomial of 0.9 or a little more or less: counts are few


@rules
@balls
@pytest.mark.slow
def test_more_values_need_less_and_more_coverage_needs_more(rule: Any, ball: Ball) -> None:
    few, many = (rule(ball, draw(t), DENSITY) for t in (30, 480))
    assert few > 1.5 * many
    if not isinstance(ball, KullbackLeiblerBall | ChiSquareBall):  # tails decide about these
        assert few < 10 * many
    radii = [rule(ball, draw(30), DENSITY, coverage) for coverage in (0.1, 0.5, 0.9, 0.99)]
    assert radii == sorted(radii)
    assert len(set(radii)) == 4
    assert rule(ball, draw(30), DENSITY) == few
    assert rule(ball, draw(30), DENSITY, seed=1) != few


@balls
def test_a_group_that_differs_widens_the_ball(ball: Ball) -> None:
    observed, groups = draw(80), torch.arange(80) % 4
    alike = cross_validated_radius(ball, observed, DENSITY, groups=groups)
    moved = torch.where(groups.unsqueeze(-1) == 3, observed / 2 + 0.5, observed)
    assert cross_validated_radius(ball, moved, DENSITY, groups=groups) > 2 * alike
    same = draw(20).repeat_interleave(2, dim=0)
    none = cross_validated_radius(ball, same, DENSITY, groups=torch.arange(40) % 2)
    assert none == pytest.approx(0, abs=1e-7)


@rules
def test_the_radius_of_a_transport_has_the_unit_of_w(rule: Any) -> None:
    degrees = ObservedContexts(40 * UNIT - 10, DENSITY.learn)
    found = rule(WassersteinBall(0.0), 40 * draw(30) - 10, degrees)
    assert found == pytest.approx(40 * rule(WassersteinBall(0.0), draw(30), DENSITY), rel=1e-6)


@rules
def test_bad_arguments(rule: Any) -> None:
    with pytest.raises(ValueError, match=r"`coverage` in \(0, 1\). Got"):
        rule(TOTAL, draw(5), COUNTS, 1.0)
    with pytest.raises(BotorchTensorDimensionError, match=r"`t x d_w`. Got"):
        rule(TOTAL, draw(5)[None], COUNTS)
    with pytest.raises(InputDataError, match=r"finite"):
        rule(TOTAL, draw(5) * torch.nan, COUNTS)
    with pytest.raises(InputDataError, match=r"on the same points.* Got points that depend"):
        rule(TOTAL, draw(5), ObservedContexts(UNIT))
    with pytest.raises(InputDataError, match=r"a common support. Got an infinite distance"):
        rule(KullbackLeiblerBall(0.0), draw(4), COUNTS, 0.99)


def test_bad_numbers_and_groups() -> None:
    with pytest.raises(ValueError, match=r"`num_resamples` to be at least 1. Got 0"):
        bootstrap_radius(TOTAL, draw(5), COUNTS, num_resamples=0)
    with pytest.raises(ValueError, match=r"`num_splits` to be at least 1. Got 0"):
        cross_validated_radius(TOTAL, draw(5), COUNTS, num_splits=0)
    with pytest.raises(InputDataError, match=r"two values to split. Got"):
        cross_validated_radius(TOTAL, draw(1), COUNTS)
    with pytest.raises(InputDataError, match=r"two groups or more. Got"):
        cross_validated_radius(TOTAL, draw(3), COUNTS, groups=torch.zeros(3))
    with pytest.raises(BotorchTensorDimensionError, match=r"one group per value. Got"):
        cross_validated_radius(TOTAL, draw(3), COUNTS, groups=torch.zeros(2))
