r"""Radii against their formulas, and their limits."""

import math

import pytest

from botorch_risk.papers import maximum_mean_discrepancy_radius, total_variation_radius

ROUNDS = (1, 2, 10, 1000)


def test_radii() -> None:
    for t in ROUNDS:
        for d_w in (1, 2, 4):
            assert total_variation_radius(t, d_w) ** (4 + d_w) == pytest.approx(t**-2)
        radius = maximum_mean_discrepancy_radius(t, gamma=0.05)
        assert radius * math.sqrt(t) == pytest.approx(2 + math.sqrt(2 * math.log(20)))
    assert maximum_mean_discrepancy_radius(9) == maximum_mean_discrepancy_radius(9, gamma=0.1)


def test_bad_arguments() -> None:
    for call in (lambda: total_variation_radius(0, 1), lambda: maximum_mean_discrepancy_radius(0)):
        with pytest.raises(ValueError, match=r"Expected `t` to be at least 1. Got 0"):
            call()
    with pytest.raises(ValueError, match=r"Expected `d_w` to be at least 1. Got 0"):
        total_variation_radius(3, 0)
    for gamma in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"Expected `gamma` in \(0, 1\). Got gamma="):
            maximum_mean_discrepancy_radius(3, gamma)
