r"""The width of V-UCB's experiments."""

import math

import pytest

from botorch_risk.acquisition import bayesian_beta


def test_schedule_of_the_experiments() -> None:
    for t in (1, 2, 60):
        assert bayesian_beta(t) == pytest.approx(2 * math.log(t**2 * math.pi**2 / 0.6))
    assert bayesian_beta(3, delta=0.05, num_points=7) == pytest.approx(
        2 * math.log(7 * 9 * math.pi**2 / 0.3)
    )


def test_bad_input() -> None:
    for delta in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"`delta` in \(0, 1\)\. Got delta="):
            bayesian_beta(1, delta)
    with pytest.raises(ValueError, match=r"`t` to be at least 1\. Got 0"):
        bayesian_beta(0)
