r"""What the theory prescribes for round t: widths of confidence bounds and radii of balls.

.. [Huang2024kde]
    X. Huang, L. Song, K. Xue, C. Qian. Stochastic Bayesian Optimization with Unknown Continuous
    Context Distribution via Kernel Density Estimation. AAAI Conference on Artificial
    Intelligence, 2024.

.. [Kirschner2020drbo]
    J. Kirschner, I. Bogunovic, S. Jegelka, A. Krause. Distributionally Robust Bayesian
    Optimization. International Conference on Artificial Intelligence and Statistics, 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

Beta = float | Tensor | Callable[[int], float]


def beta_of_round(beta: Beta, t: int) -> float | Tensor:
    r"""The squared width of round t: `beta` itself, or what a schedule says of the round."""
    return beta(t) if callable(beta) else beta


def finite_domain_beta(t: int, num_decisions: int) -> float:
    r"""The squared width beta under which Bayesian regret is bounded on finitely many decisions.

        beta_t = 2 log( t^2 num_decisions / sqrt(2 pi) )

    Lemma 6 of [Huang2024kde]_ with the decisions in place of its grid: the expected excess of f
    over its bound, at most `sigma exp(-beta / 2) / sqrt(2 pi)` for each, sums to at most
    `1 / t^2`. It assumes f to be drawn from the GP, with a prior variance of at most 1. Where the
    formula is negative, a width of 0 is enough for that, and is returned.

    Args:
        t: The round, >= 1.
        num_decisions: How many decisions there are, >= 1.

    Returns:
        beta, for `mean + sqrt(beta) sigma`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(finite_domain_beta(10, num_decisions=100), 4)
        16.5828
    """
    _check_at_least_one(t=t, num_decisions=num_decisions)
    return _beta(t, math.log(num_decisions))


def continuous_domain_beta(
    t: int, d_x: int, side_length: float, slope_factor: float, slope_scale: float
) -> float:
    r"""The squared width beta under which Bayesian regret is bounded on a box of decisions.

        beta_t = 2 log(t^2 / sqrt(2 pi)) + 2 d_x log(max(1, t^2 d_x a b r sqrt(pi) / 2))

    Theorems 1 and 2 of [Huang2024kde]_, for SBO-KDE and DRBO-KDE on `[0, r]^d_x`, whose f has
    slopes with `P(sup |df / dz_i| > L) <= a exp(-(L / b)^2)` (Assumption 1). The second logarithm
    counts the points of a grid along each axis, of which there is at least one: hence the
    maximum, which the paper leaves out. Where the sum is negative, 0 is returned as by
    `finite_domain_beta`. The experiments of the paper take the constant 2.25.

    Args:
        t: The round, >= 1.
        d_x: The number of decision variables, >= 1.
        side_length: The side of the box, the paper's r, > 0.
        slope_factor: The paper's a, > 0.
        slope_scale: The paper's b, > 0, in units of the standardised outcome over those of r.

    Returns:
        beta, for `mean + sqrt(beta) sigma`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(continuous_domain_beta(10, 2, side_length=1.0, slope_factor=1, slope_scale=1), 3)
        28.083
        >>> from functools import partial  # as a function of the round, for a strategy
        >>> schedule = partial(
        ...     continuous_domain_beta, d_x=2, side_length=1.0, slope_factor=1.0, slope_scale=1.0
        ... )
        >>> schedule(10) < schedule(20)
        True
    """
    _check_at_least_one(t=t, d_x=d_x)
    _check_positive(side_length=side_length, slope_factor=slope_factor, slope_scale=slope_scale)
    slope = slope_factor * slope_scale * math.sqrt(math.pi) / 2
    points_per_axis = max(1.0, t**2 * d_x * side_length * slope)
    return _beta(t, d_x * math.log(points_per_axis))


def total_variation_radius(t: int, d_w: int) -> float:
    r"""The radius of DRBO-KDE's ball in round t.

        t ** (-2 / (4 + d_w))

    Sec. 4.1 of [Huang2024kde]_: the rate at which the kernel density approaches the law, which
    keeps the regret of Theorem 2 sub-linear. In l1 units, the convention of `TotalVariationBall`.

    Args:
        t: The round, >= 1.
        d_w: The number of environmental variables, >= 1.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(total_variation_radius(32, d_w=1), 4)
        0.25
    """
    _check_at_least_one(t=t, d_w=d_w)
    return t ** (-2 / (4 + d_w))


def maximum_mean_discrepancy_radius(t: int, gamma: float = 0.1) -> float:
    r"""The radius of DRBO-MMD's ball in round t.

        (2 + sqrt(2 log(1 / gamma))) / sqrt(t)

    Lemma 3 of [Kirschner2020drbo]_: with probability `1 - gamma` the law lies within it of the
    empirical one of t draws, for a kernel whose diagonal is at most 1.

    Args:
        t: The round, >= 1.
        gamma: Probability, in (0, 1), that the law lies outside.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(maximum_mean_discrepancy_radius(16), 4)
        1.0365
    """
    _check_at_least_one(t=t)
    if not 0 < gamma < 1:
        raise ValueError(f"Expected `gamma` in (0, 1). Got {gamma=}.")
    return (2 + math.sqrt(2 * math.log(1 / gamma))) / math.sqrt(t)


def _beta(t: int, log_decisions: float) -> float:
    return max(0.0, 2 * (2 * math.log(t) - 0.5 * math.log(2 * math.pi) + log_decisions))


def _check_at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if not count >= 1:
            raise ValueError(f"Expected `{name}` to be at least 1. Got {count}.")


def _check_positive(**constants: float) -> None:
    for name, constant in constants.items():
        if not 0 < constant < math.inf:
            raise ValueError(f"Expected `{name}` to be finite and > 0. Got {constant}.")
