r"""Schedules against what their theorems promise, and their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from botorch_risk.acquisition import (
    continuous_domain_beta,
    finite_domain_beta,
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)

ROUNDS = (1, 2, 10, 1000)
UNIT = {"side_length": 1.0, "slope_factor": 1.0, "slope_scale": 1.0}


@pytest.mark.parametrize("t", ROUNDS)
@pytest.mark.parametrize("num_decisions", [1, 20, 10**6])
def test_the_excess_over_all_decisions_is_at_most_one_over_t_squared(
    t: int, num_decisions: int
) -> None:
    r"""Lemma 6: `num_decisions * E (f - ucb)_+`, in closed form for a standard normal f."""
    width = math.sqrt(finite_domain_beta(t, num_decisions))
    excess = norm.pdf(width) - width * norm.sf(width)
    assert num_decisions * excess <= 1 / t**2
    bound = num_decisions * math.exp(-(width**2) / 2) / math.sqrt(2 * math.pi)
    assert bound <= 1 / t**2 + 1e-12
    if width > 0:
        assert bound == pytest.approx(1 / t**2)


@pytest.mark.parametrize("t", ROUNDS[1:])
def test_the_continuous_domain_is_a_grid_of_theorem_1(t: int) -> None:
    constants = {"side_length": 3.0, "slope_factor": 2.0, "slope_scale": 0.7}
    tau = t**2 * 4 * 2.0 * 0.7 * 3.0 * math.sqrt(math.pi) / 2
    printed = 2 * np.log(t**2 / np.sqrt(2 * np.pi)) + 2 * 4 * np.log(tau)
    assert continuous_domain_beta(t, 4, **constants) == pytest.approx(printed)
    many = continuous_domain_beta(t, 300, **constants)  # more grid points than a float holds
    assert math.isfinite(many)


def test_a_grid_has_at_least_one_point_and_a_width_is_no_less_than_zero() -> None:
    smooth = {**UNIT, "slope_scale": 1e-9}
    assert continuous_domain_beta(5, 3, **smooth) == finite_domain_beta(5, 1)
    assert finite_domain_beta(1, 1) == 0.0


def test_radii() -> None:
    for t in ROUNDS:
        for d_w in (1, 2, 4):
            assert total_variation_radius(t, d_w) ** (4 + d_w) == pytest.approx(t**-2)
        radius = maximum_mean_discrepancy_radius(t, gamma=0.05)
        assert radius * math.sqrt(t) == pytest.approx(2 + math.sqrt(2 * math.log(20)))
    assert maximum_mean_discrepancy_radius(9) == maximum_mean_discrepancy_radius(9, gamma=0.1)


def test_bad_arguments() -> None:
    for call in (
        lambda: finite_domain_beta(0, 5),
        lambda: continuous_domain_beta(0, 2, **UNIT),
        lambda: total_variation_radius(0, 1),
        lambda: maximum_mean_discrepancy_radius(0),
    ):
        with pytest.raises(ValueError, match=r"Expected `t` to be at least 1. Got 0"):
            call()
    with pytest.raises(ValueError, match=r"Expected `num_decisions` to be at least 1. Got 0"):
        finite_domain_beta(3, 0)
    with pytest.raises(ValueError, match=r"Expected `d_w` to be at least 1. Got 0"):
        total_variation_radius(3, 0)
    for name in UNIT:
        for bad in (0.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"Expected `{name}` to be finite and > 0. Got"):
                continuous_domain_beta(3, 2, **{**UNIT, name: bad})
    for gamma in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"Expected `gamma` in \(0, 1\). Got gamma="):
            maximum_mean_discrepancy_radius(3, gamma)
