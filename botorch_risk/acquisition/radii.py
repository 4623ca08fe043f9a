r"""Radii of the balls of distributions in round t."""

from __future__ import annotations

import math

from botorch_risk.arguments import check_counts, check_probability


def total_variation_radius(t: int, d_w: int) -> float:
    r"""The radius of DRBO-KDE's ball in round t.

        t ** (-2 / (4 + d_w))

    Sec. 4.1 of [Huang2024kde]_: the rate at which the kernel density approaches the distribution,
    which keeps the regret of Theorem 2 sub-linear. In l1 units, the convention of
    `TotalVariationBall`.

    Args:
        t: The round, >= 1.
        d_w: The number of environmental variables, >= 1.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(total_variation_radius(32, d_w=1), 4)
        0.25
    """
    check_counts(t=t, d_w=d_w)
    return t ** (-2 / (4 + d_w))


def maximum_mean_discrepancy_radius(t: int, gamma: float = 0.1) -> float:
    r"""The radius of DRBO-MMD's ball in round t.

        (2 + sqrt(2 log(1 / gamma))) / sqrt(t)

    Lemma 3 of [Kirschner2020drbo]_: with probability `1 - gamma` the distribution lies within
    it of the empirical one of t draws, for a kernel whose diagonal is at most 1.

    Args:
        t: The round, >= 1.
        gamma: Probability, in (0, 1), that the distribution lies outside.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(maximum_mean_discrepancy_radius(16), 4)
        1.0365
    """
    check_counts(t=t)
    check_probability(gamma=gamma)
    return (2 + math.sqrt(2 * math.log(1 / gamma))) / math.sqrt(t)
