r"""Widths of confidence bounds, as the theory prescribes them for a round or a model."""

import math
from collections.abc import Callable

from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative_each
from botorch_risk.arguments import as_floating, check_counts, check_nonnegative, check_probability

Beta = float | Tensor | Callable[[int], float]


def check_beta(beta: Beta) -> None:
    r"""Raise ValueError if a constant squared width is negative or not finite."""
    if not callable(beta):
        as_nonnegative_each("beta", beta)


def beta_of_round(beta: Beta, t: int) -> float | Tensor:
    r"""The squared width of round t: `beta` itself, or the schedule's value in this round."""
    check_counts(t=t)
    return beta(t) if callable(beta) else beta


def bayesian_beta(t: int, delta: float = 0.1, num_points: int = 1) -> float:
    r"""The squared width for a function drawn from the prior, at finitely many points.

        beta_t = 2 log(num_points t^2 pi^2 / (6 delta))

    All bounds of all rounds hold together with probability 1 - delta [Srinivas2010gpucb]_, Theorem
    1, and so do the bounds of the value-at-risk (Lemma 2 of [Nguyen2021vucb]_). The defaults give
    `2 log(t^2 pi^2 / 0.6)`, the schedule of V-UCB's experiments (Appendix I), which holds for one
    point. Its square root multiplies sigma. Of the authors' programs, the one for finite W uses the
    constant 9 instead, and the one for continuous W multiplies sigma by `beta_t` itself.

    Args:
        t: The round, from 1.
        delta: Probability, in (0, 1), that some bound fails in some round.
        num_points: The number of pairs (x, w) at which the bounds have to hold.

    Example:
        >>> round(bayesian_beta(1), 4), round(bayesian_beta(10), 4)
        (5.6006, 14.8109)
    """
    check_probability(delta=delta)
    check_counts(t=t, num_points=num_points)
    # Lemma C.1 of [Bogunovic2016truvar]_.
    return 2 * math.log(num_points * t**2 * math.pi**2 / (6 * delta))


def checked_information(name: str, information: float | Tensor) -> Tensor:
    r"""Information in nats, in float64; raises ValueError if it is negative."""
    gain = as_floating(information, name).double()
    check_nonnegative(**{name: gain.min().item()})
    return gain
